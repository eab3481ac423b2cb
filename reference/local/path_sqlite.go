package local

import (
	"context"
	"sync"
	"time"

	"github.com/regpath/diagnose/reference/shard"
)

// reopenable is a SQLite shard that can be closed and opened again under a running service, as a server can be stopped and
// started. Closed, every call fails with the driver's own error. Its counters go on over that.
type reopenable struct {
	path string
	pool int // its size

	mu     sync.RWMutex
	store  *shard.SQLite
	closed bool
	past   shard.PoolStats // counters of the stores before
}

var _ shard.Store = (*reopenable)(nil)

func openReopenable(ctx context.Context, path string, pool int) (*reopenable, error) {
	store, err := shard.OpenSQLite(ctx, path, shard.SQLiteOptions{PoolSize: pool})
	if err != nil {
		return nil, err
	}
	return &reopenable{path: path, pool: pool, store: store}, nil
}

// reopen opens the file again.
func (r *reopenable) reopen(ctx context.Context) error {
	store, err := shard.OpenSQLite(ctx, r.path, shard.SQLiteOptions{PoolSize: r.pool})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = plus(r.store.Pool(), r.past)
	r.store, r.closed = store, false
	return nil
}

func (r *reopenable) current() *shard.SQLite {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.store
}

// Lookup implements [shard.Store].
func (r *reopenable) Lookup(ctx context.Context, name string) (shard.Row, bool, error) {
	return r.current().Lookup(ctx, name)
}

// Claim implements [shard.Store].
func (r *reopenable) Claim(ctx context.Context, c shard.Claim) (won bool, err error) {
	return r.current().Claim(ctx, c)
}

// Move implements [shard.Store].
func (r *reopenable) Move(ctx context.Context, m shard.Move) (moved bool, err error) {
	return r.current().Move(ctx, m)
}

// Recyclable implements [shard.Store].
func (r *reopenable) Recyclable(ctx context.Context, now time.Time, limit int) ([]string, error) {
	return r.current().Recyclable(ctx, now, limit)
}

// Outbox implements [shard.Store].
func (r *reopenable) Outbox(ctx context.Context, limit int) ([]shard.Event, error) {
	return r.current().Outbox(ctx, limit)
}

// MarkPublished implements [shard.Store].
func (r *reopenable) MarkPublished(ctx context.Context, ids []int64) error {
	return r.current().MarkPublished(ctx, ids)
}

// Republish implements [shard.Store].
func (r *reopenable) Republish(ctx context.Context, since time.Time) (int64, error) {
	return r.current().Republish(ctx, since)
}

// Purge implements [shard.Store].
func (r *reopenable) Purge(ctx context.Context, before time.Time, limit int) (int64, error) {
	return r.current().Purge(ctx, before, limit)
}

// HoldMobile implements [shard.Store].
func (r *reopenable) HoldMobile(ctx context.Context, h shard.Hold, dead int64) (holder shard.Hold, err error) {
	return r.current().HoldMobile(ctx, h, dead)
}

// DropMobile implements [shard.Store].
func (r *reopenable) DropMobile(ctx context.Context, mobile string, userID int64) error {
	return r.current().DropMobile(ctx, mobile, userID)
}

// Bury implements [shard.Store].
func (r *reopenable) Bury(ctx context.Context, name string, userID int64, at time.Time) (alive bool, err error) {
	return r.current().Bury(ctx, name, userID, at)
}

// Load implements [shard.Store].
func (r *reopenable) Load(ctx context.Context, rows []shard.Row) (added int64, err error) {
	return r.current().Load(ctx, rows)
}

// Sample implements [shard.Store].
func (r *reopenable) Sample(ctx context.Context, n int, before time.Time) ([]shard.Row, error) {
	return r.current().Sample(ctx, n, before)
}

// Names implements [shard.Store].
func (r *reopenable) Names(ctx context.Context, yield func(name string) error) error {
	return r.current().Names(ctx, yield)
}

// Placement implements [shard.Store].
func (r *reopenable) Placement() shard.Placement { return r.current().Placement() }

// Pool implements [shard.Store].
func (r *reopenable) Pool() shard.PoolStats {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return plus(r.store.Pool(), r.past)
}

// Address implements [shard.Store].
func (r *reopenable) Address() string { return "" }

// Close implements [shard.Store].
func (r *reopenable) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return r.store.Close()
}

// plus adds the counters of past to now.
func plus(now, past shard.PoolStats) shard.PoolStats {
	now.Acquires += past.Acquires
	now.Waits += past.Waits
	now.WaitTime += past.WaitTime
	now.Timeouts += past.Timeouts
	return now
}
