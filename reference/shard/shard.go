// Package shard keeps the rows of taken usernames, spread over several databases.
//
// A name has one home: its murmur3 hash picks one of [Buckets] buckets, a [RoutingTable] says which physical shard owns
// the bucket, and other bits of the same hash pick one of [SubTables] tables there, whose unique index has the last word
// on who owns the name. A [Store] is one physical shard; a [Cluster] is all of them, with the figures a diagnosis needs.
//
// Names are taken as they come: bringing them to their canonical form is the caller's work, done once, before the hash.
package shard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Row is one registered name.
type Row struct {
	// Name is the canonical username, the key.
	Name string
	// UserID is the owner's id.
	UserID int64
	// CreatedAt is when the name was registered; stores keep microseconds and answer in UTC.
	CreatedAt time.Time
}

// ErrNoConnection is in the chain of every error of a call that ended, by whatever deadline or cancellation, before it
// had a connection to the shard: the pool was used up, or a new connection did not come about in time. The cause, such as
// context.DeadlineExceeded, is in the chain too.
var ErrNoConnection = errors.New("no connection in time")

// Store is one physical shard. It is safe for concurrent use. Every method that takes a context returns soon after the
// context ends, also when the database behind it hangs.
type Store interface {
	// Lookup finds the row of a name by a point query on the unique index. A missing name is false, not an error.
	Lookup(ctx context.Context, name string) (Row, bool, error)

	// Insert claims the name for the row's user. Exactly one of all concurrent callers wins; false means that the name was
	// taken already. After an error the outcome is not known: the row may have been written. Lookup tells.
	Insert(ctx context.Context, r Row) (won bool, err error)

	// Load inserts many rows in one transaction and passes over names that are taken. It answers how many it added.
	Load(ctx context.Context, rows []Row) (added int64, err error)

	// Sample picks up to n names at random among those registered before the given time. Its cost is bounded by n, not by
	// the size of the shard, and it may answer with fewer names than there are.
	Sample(ctx context.Context, n int, before time.Time) ([]string, error)

	// Names calls yield with every name, in no particular order, in bounded memory. It holds one connection meanwhile. An
	// error from yield ends the walk and comes back in the chain of the answer.
	Names(ctx context.Context, yield func(name string) error) error

	// Pool tells the state of the store's connection pool, from memory.
	Pool() PoolStats

	// Address is the host:port of the database, empty where there is none (an embedded file, a unix socket). It never holds
	// credentials.
	Address() string

	// Close waits for running calls and releases everything.
	Close() error
}

// PoolStats is the state of a bounded connection pool. Size, InUse, Idle and Pending are gauges, the rest only grows.
type PoolStats struct {
	// Size is the most connections the pool may hold.
	Size int
	// InUse counts the calls that hold one of the Size slots, those whose connection is still being opened included.
	InUse int
	// Idle counts open connections that nobody uses.
	Idle int
	// Pending counts the calls that wait for a slot at this moment.
	Pending int
	// Acquires counts the calls that got a connection.
	Acquires uint64
	// Waits counts the calls that found no slot free, whatever came of their waiting.
	Waits uint64
	// WaitTime is the time spent in all Waits that are over, those in vain included.
	WaitTime time.Duration
	// Timeouts counts the calls that ended without a connection because their context ended or the connection took too
	// long to open. A refused connection is not among them.
	Timeouts uint64
}

// SubTables is the number of tables that one physical shard spreads its names over.
const SubTables = 16

// tables lists the sub-tables names_00 to names_15 with the statements that both databases share. The placeholders occur
// in ascending order, for SQLite numbers them by occurrence.
func tables() [SubTables]table {
	var all [SubTables]table
	for i := range all {
		name := fmt.Sprintf("names_%02d", i)
		all[i] = table{
			name:   name,
			lookup: "SELECT user_id, created_at FROM " + name + " WHERE username = $1",
			insert: "INSERT INTO " + name + " (username, user_id, created_at) VALUES ($1, $2, $3)" +
				" ON CONFLICT (username) DO NOTHING RETURNING user_id",
			names: "SELECT username FROM " + name,
		}
	}
	return all
}

type table struct{ name, lookup, insert, names string }
