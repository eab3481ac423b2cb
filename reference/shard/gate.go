package shard

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// gate bounds the calls that may hold a connection, and keeps the figures of a pool. It stands in front of the driver's
// own pool because neither driver tells all that a diagnosis needs: pgxpool has no gauge of waiting calls, database/sql
// does not count waits in vain, and both leave out the time of waits that failed, which is when it matters most.
// Waiting calls are served in the order of their arrival.
type gate struct {
	slots    chan struct{}
	pending  atomic.Int64
	acquires atomic.Uint64
	waits    atomic.Uint64
	waitTime atomic.Int64 // nanoseconds
	timeouts atomic.Uint64
}

func newGate(size int) *gate { return &gate{slots: make(chan struct{}, size)} }

// enter takes a slot, or returns an error with [ErrNoConnection] when ctx ends first. A call whose time was up before it
// came here says nothing about this pool and is not counted.
func (g *gate) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoConnection, err)
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}

	start := time.Now()
	g.waits.Add(1)
	g.pending.Add(1)
	defer func() {
		g.pending.Add(-1)
		g.waitTime.Add(int64(time.Since(start)))
	}()
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		g.timeouts.Add(1)
		return fmt.Errorf("%w: %w", ErrNoConnection, ctx.Err())
	}
}

// vain counts a call that ended before anybody asked for a slot on its behalf.
func (g *gate) vain(waited time.Duration) {
	g.waits.Add(1)
	g.waitTime.Add(int64(waited))
	g.timeouts.Add(1)
}

// leave gives the slot back.
func (g *gate) leave() { <-g.slots }

// stats tells the gate's figures; the idle connections are the driver's to count.
func (g *gate) stats(idle int) PoolStats {
	return PoolStats{
		Size:     cap(g.slots),
		InUse:    len(g.slots),
		Idle:     idle,
		Pending:  int(g.pending.Load()),
		Acquires: g.acquires.Load(),
		Waits:    g.waits.Load(),
		WaitTime: time.Duration(g.waitTime.Load()),
		Timeouts: g.timeouts.Load(),
	}
}
