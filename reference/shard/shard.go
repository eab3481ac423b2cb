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
	"time"
)

// ErrNoConnection is in the chain of every error of a call that ended, by whatever deadline or cancellation, before it
// had a connection to the shard: the pool was used up, or a new connection did not come about in time. The cause, such as
// context.DeadlineExceeded, is in the chain too.
var ErrNoConnection = errors.New("no connection in time")

// Store is one physical shard. It is safe for concurrent use. Every method that takes a context returns soon after the
// context ends, also when the database behind it hangs.
type Store interface {
	// Lookup finds the row of a name by a point query on the unique index. A missing name is false, not an error, and so is
	// a released one whose cool-down is over. One whose cool-down still runs is found.
	Lookup(ctx context.Context, name string) (Row, bool, error)

	// Claim gives a name that is available to its first owner, in one transaction: the row of the name, the row of the user
	// and the event. Available is a name without a row, and a released one whose cool-down is over, which moves on to
	// AVAILABLE, with the event that belongs to it, before it is claimed. Exactly one of all concurrent callers wins; false
	// means that the name was taken already. [ErrMobileTaken] means that a living user of this shard has the mobile number.
	// After any other error the outcome is not known: the rows may have been written. Lookup tells.
	Claim(ctx context.Context, c Claim) (won bool, err error)

	// Move takes a name from one state to another, with one event in the same transaction, if it still is in the first and
	// belongs to the user given; else it answers false and nothing has changed. A move to RELEASED marks the user row as
	// deleted; one to AVAILABLE, which waits for the end of the cool-down, removes the row of the name, while the user row
	// and the events keep the history. A move that [name.CanMove] refuses, or that is Claim's to make, is an error that
	// wraps [name.ErrMove].
	Move(ctx context.Context, m Move) (moved bool, err error)

	// Recyclable lists up to limit released names whose cool-down is over at the time given, in no particular order.
	Recyclable(ctx context.Context, now time.Time, limit int) ([]string, error)

	// Outbox lists up to limit events that are not published yet, by ascending id. Ids are given out before transactions
	// commit, so that a smaller one may still appear after a larger one was listed; those of one name appear in order.
	Outbox(ctx context.Context, limit int) ([]Event, error)

	// MarkPublished takes events off the Outbox. To do it again changes nothing.
	MarkPublished(ctx context.Context, ids []int64) error

	// Republish puts the events that were published at or after the time given back into the Outbox, for when what they
	// were published to lost them, and answers how many.
	Republish(ctx context.Context, since time.Time) (int64, error)

	// Purge deletes up to limit events that were published before the time given, and answers how many.
	Purge(ctx context.Context, before time.Time, limit int) (int64, error)

	// HoldMobile keeps a mobile number for a user, if nobody has it or if the user who has it is the dead one given, and
	// answers for whom it is kept now. It is for [Cluster.ClaimMobile].
	HoldMobile(ctx context.Context, h Hold, dead int64) (holder Hold, err error)

	// DropMobile lets a number go that is kept for the user, else it does nothing.
	DropMobile(ctx context.Context, mobile string, userID int64) error

	// Bury says whether the user of the name is alive. If there is no such user, there never will be: Claim fails for the id
	// from then on.
	Bury(ctx context.Context, name string, userID int64, at time.Time) (alive bool, err error)

	// Load inserts many rows in one transaction and passes over names that have a row. It answers how many it added. It is
	// for rows that exist elsewhere: it writes no user and no event.
	Load(ctx context.Context, rows []Row) (added int64, err error)

	// Sample picks up to n rows at random among those of names registered before the given time. Its cost is bounded by n,
	// not by the size of the shard, and it may answer with fewer rows than there are.
	Sample(ctx context.Context, n int, before time.Time) ([]Row, error)

	// Names calls yield with every name that has a row, released ones included, in no particular order, in bounded memory. It holds one connection meanwhile. An
	// error from yield ends the walk and comes back in the chain of the answer.
	Names(ctx context.Context, yield func(name string) error) error

	// Placement is the shard's share of the routing. A name that is not the shard's to answer for makes Lookup, Claim, Move and
	// Load fail with [ErrMoved], and nothing is done.
	Placement() Placement

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
