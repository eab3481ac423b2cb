// Package probes defines what a measurement is: a Probe looks once at one
// layer of a service and returns Evidence, nothing more. Judging it is the
// business of package playbooks. The package depends on the standard library
// only; the probes themselves live one folder each beside their options.
package probes

import (
	"context"
	"time"
)

// Probe measures one layer once.
type Probe interface {
	// Check measures within ctx and returns when ctx ends at the latest. It is
	// read-only for the target: it writes nothing, changes no setting and does
	// not retry. An error means "nothing could be measured"; a bad value is not
	// an error, and a refused connection that tells something is a Fact. Facts
	// that could not be measured beside others that could go to
	// Evidence.Missing. Check may be called again after it has returned, but
	// not concurrently.
	Check(ctx context.Context) (Evidence, error)
}

// Evidence is what one Check saw.
type Evidence struct {
	// Source names where the numbers come from, for a human, without secrets:
	// "checker http://127.0.0.1:8080", "redis 127.0.0.1:6379".
	Source string `json:"source"`
	// At is when the last sample was taken.
	At time.Time `json:"at"`
	// Window is the time between the two samples that rates and ratios were
	// computed from; zero when only gauges were read.
	Window time.Duration `json:"window_ns,omitempty"`
	Facts  []Fact        `json:"facts"`
	// Rows are ranked details: top keys, error groups, shards.
	Rows []Row `json:"rows,omitempty"`
	// Missing lists facts that were meant to be measured and were not.
	Missing []Missing `json:"missing,omitempty"`
	Cost    Cost      `json:"cost"`
}

// Fact is one measured number. Names are snake_case, without the probe's name
// and without the unit when the unit is a plain count. A truth value is 0 or 1
// with unit Bool.
type Fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit,omitempty"`
	// Interval is the 95 % confidence interval where the value was sampled.
	Interval *Interval `json:"interval,omitempty"`
	// Onset is set where the value was recorded before and has moved.
	Onset *Onset `json:"onset,omitempty"`
}

// Interval is a closed interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Row is one line of a ranked table, such as a top key or an error group.
type Row struct {
	// Table groups rows: "top keys", "errors", "shards".
	Table string `json:"table"`
	// Key comes from outside and may hold anything: renderers must escape it.
	Key   string  `json:"key"`
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit,omitempty"`
	Note  string  `json:"note,omitempty"`
	// Unknown says that Value was not measured: it is 0 then and not shown.
	Unknown bool `json:"unknown,omitempty"`
}

// Missing says which facts could not be measured and why.
type Missing struct {
	Facts  []string `json:"facts"`
	Reason string   `json:"reason"`
	// Moot says that there is nothing to measure, which is no gap: the mean of
	// waits when nobody waited, a share of memory that is unlimited.
	Moot bool `json:"moot,omitempty"`
	// Absent says that the facts are not to be had here, which is a gap and no
	// failure: the back end does not offer them, the agent has no right to them,
	// nothing is configured to be asked, or too little has happened to tell.
	// Without Moot and Absent they were to be had, and reading them failed.
	Absent bool `json:"absent,omitempty"`
}

// Cost is what a measurement did to its targets.
type Cost struct {
	RedisCommands int   `json:"redis_commands"`
	Queries       int   `json:"queries"`
	HTTPRequests  int   `json:"http_requests"`
	Bytes         int64 `json:"bytes"`
}

// Plus returns the sum of both costs.
func (c Cost) Plus(d Cost) Cost {
	return Cost{
		RedisCommands: c.RedisCommands + d.RedisCommands,
		Queries:       c.Queries + d.Queries,
		HTTPRequests:  c.HTTPRequests + d.HTTPRequests,
		Bytes:         c.Bytes + d.Bytes,
	}
}

// Unit is the unit of a Fact, in Prometheus base units.
type Unit string

// The units in use.
const (
	Count     Unit = ""           // a plain number
	Ratio     Unit = "ratio"      // 0 to 1, unless documented otherwise
	Seconds   Unit = "seconds"    // a duration
	Bytes     Unit = "bytes"      // a size
	PerSecond Unit = "per_second" // a rate
	Bool      Unit = "bool"       // 0 or 1
)

// FactDoc documents a fact that a kind of probe can return. Conditions in
// playbooks may name exactly the facts documented here.
type FactDoc struct {
	Name string
	Unit Unit
	// Help says what the number is and where it comes from, in one sentence.
	Help string
	// Expected is what a healthy value looks like, for a human: "<= 0.5".
	// Empty when there is no general answer.
	Expected string
	// Signed says that the number may be negative, which no count, share, time or
	// size can be otherwise.
	Signed bool
}

// Kind is a sort of probe that playbooks can name.
type Kind struct {
	Facts []FactDoc
	// Tables are the tables whose rows it returns. Sentences in playbooks may
	// name the first row of exactly these.
	Tables []string
	// New makes a probe from the options in the playbook. decode fills the
	// pointer it is given, strictly, with error positions in the playbook's
	// file; a kind without options need not call it. New does no I/O.
	New func(decode func(any) error) (Probe, error)
}

// Catalog holds the kinds that playbooks may use, by name.
type Catalog map[string]Kind
