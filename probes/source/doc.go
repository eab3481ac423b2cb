// Package source is where the numbers of probes come from: a service's
// diagnostic documents over HTTP, a Redis server, Postgres shards.
//
// The documents of a service are read in snapshots ([HTTP.Get]): however many
// steps a playbook has, those that look at the same time share one request. A
// further document needs a path in contract.go and a struct for [HTTP.Get] to
// fill; numbers in it are probes.Number and times are Time, so that what a
// service leaves out is unknown.
//
// A source must not hurt the patient. It holds one connection per back end that
// is opened before the incident and kept, because during the incident there may
// be no slot left; it re-dials at most once when that connection is broken,
// never retries a command that timed out, and leaves a dead target alone for a
// few seconds. Every call is bounded in time and bytes and adds what it did to
// a probes.Cost.
//
// A source tells apart how a target fails (ErrRefused, ErrUnreachable, ErrHung,
// ErrFull, ErrDenied, ErrAbsent, ErrAnswered), because that is evidence, and puts no
// secret into an error.
package source
