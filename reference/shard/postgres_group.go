package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// committers is how many transactions of claims run at a time: one gathers while the other waits for the disk. More
	// would leave each with less to share.
	committers = 2
	// maxShared bounds the claims of one transaction, and so how long it keeps its locks.
	maxShared = 32
	// sharedTimeout bounds a transaction whose callers set no deadline.
	sharedTimeout = 5 * time.Second
)

// claims lets the claims that arrive while others are being committed share one transaction: a commit, its wait for the
// disk and its round trips cost more than the rows. A claim that nobody else arrives with has a transaction of its own. The
// zero value is ready for use, by many goroutines.
type claims struct {
	mu      sync.Mutex
	queue   []*waiting // in the order of arrival
	running int        // committers
}

// waiting is a claim on its way to its transaction.
type waiting struct {
	Claim

	ctx  context.Context //nolint:containedctx // the caller's: the transaction must know how long it may take
	led  bool            // a committer waits for a connection on its behalf
	done chan outcome    // has room for one
}

// outcome is what became of a claim. One that is not settled is as if it had not been made.
type outcome struct {
	settled, won bool
	err          error
}

// share claims the name in a transaction with whoever else is there. If that does not settle it, it is for claimOn.
func (p *Postgres) share(ctx context.Context, c Claim) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{settled: true, err: fmt.Errorf("claim: %w: %w", ErrNoConnection, err)}
	}
	w := &waiting{Claim: c, ctx: ctx, done: make(chan outcome, 1)}
	start := time.Now()
	if p.claims.join(w, min(committers, cap(p.gate.slots))) {
		go p.commit()
	}
	select {
	case o := <-w.done:
		return o
	case <-ctx.Done():
	}
	switch gone, led := p.claims.leave(w); {
	case gone:
		p.gate.vain(time.Since(start))
		return outcome{settled: true, err: fmt.Errorf("claim: %w: %w", ErrNoConnection, ctx.Err())}
	case led: // the committer waits no longer than ctx either
		return <-w.done
	}
	select {
	case o := <-w.done:
		return o
	default:
		return outcome{settled: true, err: fmt.Errorf("claim: %w", ctx.Err())} // it may come true yet
	}
}

// join queues w and says whether one more committer is to be started.
func (c *claims) join(w *waiting, most int) (start bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, w)
	if c.running == most {
		return false
	}
	c.running++
	return true
}

// leave takes w back if its transaction has not begun, unless a committer waits on its behalf.
func (c *claims) leave(w *waiting) (gone, led bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.queue, w)
	if at < 0 || w.led {
		return false, at >= 0
	}
	c.queue = slices.Delete(c.queue, at, at+1)
	return true, false
}

// lead picks the claim on whose behalf a committer waits for a connection; nil ends the committer. Those whose time is up
// are about to leave.
func (c *claims) lead() *waiting {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.queue {
		if !w.led && w.ctx.Err() == nil {
			w.led = true
			return w
		}
	}
	c.running--
	return nil
}

// take takes up to n claims off the queue; the connection for them is there.
func (c *claims) take(n int) []*waiting {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, len(c.queue))
	taken := slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	return taken
}

// drop takes w off the queue, if it is there still.
func (c *claims) drop(w *waiting) []*waiting {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.queue, w)
	if at < 0 {
		return nil
	}
	c.queue = slices.Delete(c.queue, at, at+1)
	return []*waiting{w}
}

// waiting is how many claims wait.
func (c *claims) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// commit runs transactions until nobody waits.
func (p *Postgres) commit() {
	for w := p.claims.lead(); w != nil; w = p.claims.lead() {
		conn, err := p.acquire(w.ctx)
		if err == nil {
			p.settle(conn, p.claims.take(maxShared))
			p.release(conn)
			continue
		}
		failed := p.claims.drop(w)
		if w.ctx.Err() == nil { // the shard cannot be reached, by the others neither
			failed = append(failed, p.claims.take(maxShared)...)
		}
		for _, w := range failed {
			w.done <- outcome{settled: true, err: fmt.Errorf("claim: %w", err)}
		}
	}
}

// settle claims what was taken off the queue.
func (p *Postgres) settle(conn *pgxpool.Conn, taken []*waiting) {
	switch len(taken) {
	case 0: // another committer was quicker
	case 1:
		w := taken[0]
		won, err := p.claimOn(w.ctx, conn, w.Claim)
		w.done <- outcome{settled: true, won: won, err: err}
	default:
		// They lock their names in one order: two transactions with the same names do not wait for each other in a circle.
		slices.SortFunc(taken, func(a, b *waiting) int { return strings.Compare(a.Name, b.Name) })
		ctx, cancel := deadline(taken)
		defer cancel()
		for i, o := range p.claimFresh(ctx, conn, taken) {
			taken[i].done <- o
		}
	}
}

// deadline is a context with the latest deadline among the callers: who cannot wait so long goes.
func deadline(taken []*waiting) (context.Context, context.CancelFunc) {
	var latest time.Time
	for _, w := range taken {
		at, ok := w.ctx.Deadline()
		if !ok {
			at = time.Now().Add(sharedTimeout)
		}
		if at.After(latest) {
			latest = at
		}
	}
	return context.WithDeadline(context.WithoutCancel(taken[0].ctx), latest)
}
