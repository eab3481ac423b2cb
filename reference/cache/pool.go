package cache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNoConnection says that a command ended before it got a connection from
// the pool.
var ErrNoConnection = errors.New("no connection from the pool")

// Pool is the state of the connection pool. The first four are gauges, the
// others only grow.
type Pool struct {
	Size, InUse, Idle, Pending int

	Acquires uint64
	Waits    uint64
	WaitTime time.Duration
	Timeouts uint64
	Dials    uint64 // connections that were opened
	// Hits, Misses and Stale are go-redis's own counts of connections found,
	// dialled and removed.
	Hits, Misses, Stale uint64
}

// RedisStats are the counters of a Redis cache.
type RedisStats struct {
	Address  string
	Name     string // of the pool's connections
	Pool     Pool
	Commands uint64
	Errors   uint64
	Busy     time.Duration // inside commands, waiting for a connection included
	// What came of the names asked for, each counted once.
	HitsTaken, HitsFree, Misses, LookupErrors uint64
	// Owed is what Redis has not heard of yet.
	Owed Owed
}

// Lookups returns how many names were asked for.
func (s RedisStats) Lookups() uint64 { return s.HitsTaken + s.HitsFree + s.Misses + s.LookupErrors }

// Stats reads the counters. It asks nobody.
func (r *Redis) Stats() RedisStats {
	s := RedisStats{
		HitsTaken: r.taken.Load(), HitsFree: r.free.Load(), Misses: r.misses.Load(), LookupErrors: r.failedLookups.Load(),
		Errors: r.failed.Load(), Commands: r.commands.Load(), Busy: time.Duration(r.busy.Load()),
		Owed: r.owed.count(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clients {
		r.pool.add(c)
	}
	s.Address, s.Name, s.Pool = r.current().options.Address, r.current().options.ClientName, r.pool.totals()
	now := r.current().seen
	s.Pool.Size = r.current().options.PoolSize
	s.Pool.Idle = int(now.IdleConns)
	s.Pool.InUse = max(0, int(now.TotalConns)-int(now.IdleConns))
	s.Pool.Pending = int(now.PendingRequests)
	return s
}

// poolCounters add up what happened to commands on their way to a connection,
// over all clients. go-redis counts only waits that succeeded, and only its own
// timeout: a pool that is starved while requests give up at their deadline
// looks unused in its counters. Those waits are counted here.
type poolCounters struct {
	waits, hits, misses, stale uint64 // from go-redis, guarded by Redis.mu
	waitTime                   time.Duration

	acquired, vain, dialled atomic.Uint64
	vainTime                atomic.Int64 // nanoseconds
}

// add adds what c's pool has counted since the last call. go-redis counts in 32
// bits; differences survive the wrap.
func (p *poolCounters) add(c *client) {
	now := *c.PoolStats()
	p.waits += uint64(now.WaitCount - c.seen.WaitCount)
	p.hits += uint64(now.Hits - c.seen.Hits)
	p.misses += uint64(now.Misses - c.seen.Misses)
	p.stale += uint64(now.StaleConns - c.seen.StaleConns)
	p.waitTime += time.Duration(now.WaitDurationNs - c.seen.WaitDurationNs)
	c.seen = now
}

func (p *poolCounters) totals() Pool {
	vain := p.vain.Load()
	return Pool{
		Acquires: p.acquired.Load(),
		Waits:    p.waits + vain,
		WaitTime: p.waitTime + time.Duration(p.vainTime.Load()),
		Timeouts: vain,
		Dials:    p.dialled.Load(),
		Hits:     p.hits, Misses: p.misses, Stale: p.stale,
	}
}

// ended accounts for a command that ended with err after took, and marks the
// error of one that never got a connection. Such an error is the pool's own
// timeout, or the bare error of the context: once a connection is there, a
// deadline shows as a network timeout instead.
func (p *poolCounters) ended(err error, took time.Duration) error {
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, context.DeadlineExceeded) {
		p.vain.Add(1)
		p.vainTime.Add(int64(took))
		return fmt.Errorf("%w: %w", ErrNoConnection, err)
	}
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" {
		p.acquired.Add(1)
	}
	return err
}
