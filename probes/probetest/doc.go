// Package probetest holds the contract that every probe must pass, and what
// tests of probes need for it: a fake checker that serves given documents and
// keeps count, and private, throw-away Redis and Postgres servers started from
// the system's binaries.
package probetest
