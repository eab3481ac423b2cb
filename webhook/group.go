package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxWaiting is how many changes may wait for their transaction. At the pace
	// of a slow disk, with groups of maxGroup, that is some two seconds.
	maxWaiting = 1024
	// maxGroup is how many changes share a transaction at most: what the last of
	// them takes is what the first one waits.
	maxGroup = 128
	// groupPatience ends a group that has fewer, but dear ones: those that wait
	// behind it go into the next one. Were they bound to go through together or not
	// at all, a load too large for one transaction would never get through.
	groupPatience = 250 * time.Millisecond
	// groupTimeout bounds one transaction up to its commit. As groupPatience ends most
	// of them long before, it is what a single change may take: that of the largest
	// notification, on the slowest machine.
	groupTimeout = 30 * time.Second
)

var (
	errStoreClosed = errors.New("the store is closed")
	// errGroupBroken says that the database has rolled back the transaction by
	// itself, as it does when the disk is full: nobody's change is kept.
	errGroupBroken = errors.New("the transaction was given up")
)

// change is one caller's part of a shared transaction.
type change struct {
	// caller is for the values in it only: River keeps its client there.
	caller context.Context
	do     func(ctx context.Context, tx *sql.Tx) error
	err    error
	// taken is set by whoever decides on the change: the committer that puts it
	// into a transaction, or its caller who waits no longer.
	taken atomic.Bool
	// settled is closed once err is final.
	settled chan struct{}
}

// committer is the only writer of the store in this process beside River. To make a commit
// durable takes the disk as long for one change as for a hundred: so those that
// come during one commit share the next. Each has a savepoint of its own, and
// fails or is kept for itself.
type committer struct {
	begin func(context.Context) (*sql.Tx, error)
	// mu keeps waiting from being closed while somebody sends.
	mu      sync.RWMutex
	closed  bool
	waiting chan *change
	done    chan struct{}
}

func newCommitter(begin func(context.Context) (*sql.Tx, error)) *committer {
	c := &committer{begin: begin, waiting: make(chan *change, maxWaiting), done: make(chan struct{})}
	go c.run()
	return c
}

// behind reports whether so many changes wait that no more should be taken in.
func (c *committer) behind() bool { return len(c.waiting) == cap(c.waiting) }

// commit has do run in a transaction: all of it is durable when commit returns
// nil, and nothing of it otherwise. The context that do gets has the values of ctx
// and ends with the group's time: one caller who leaves must not break what is
// others' too. The end of ctx takes the change back if it still waits for its
// transaction.
func (c *committer) commit(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	ch := &change{caller: ctx, do: do, settled: make(chan struct{})}
	if err := c.send(ctx, ch); err != nil {
		return err
	}
	select {
	case <-ch.settled:
	case <-ctx.Done():
		if ch.taken.CompareAndSwap(false, true) {
			return fmt.Errorf("wait for the store: %w", ctx.Err())
		}
		<-ch.settled // soon: it is under way
	}
	return ch.err
}

func (c *committer) send(ctx context.Context, ch *change) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return errStoreClosed
	}
	select {
	case c.waiting <- ch:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the store: %w", ctx.Err())
	}
}

// close settles what waits and ends the committer.
func (c *committer) close() {
	c.mu.Lock()
	already := c.closed
	c.closed = true
	c.mu.Unlock()
	if !already {
		close(c.waiting)
	}
	<-c.done
}

func (c *committer) run() {
	defer close(c.done)
	for first := range c.waiting {
		c.transact(first)
	}
}

// transact puts first and what waits behind it into one transaction.
func (c *committer) transact(first *change) {
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	tx, err := c.begin(ctx)
	if err != nil {
		if first.taken.CompareAndSwap(false, true) {
			first.err = fmt.Errorf("begin: %w", err)
			close(first.settled)
		}
		return
	}
	var group []*change
	defer func() {
		for _, ch := range group {
			close(ch.settled)
		}
	}()
	begun, kept := time.Now(), 0
	for ch := first; ch != nil; ch = c.next(len(group), begun) {
		// Only now, when its turn has come: until then its caller may still go away.
		if !ch.taken.CompareAndSwap(false, true) {
			continue
		}
		group = append(group, ch)
		if ch.err = within(valued{ctx, ch.caller}, tx, ch.do); errors.Is(ch.err, errGroupBroken) {
			failAll(group, errors.Join(ch.err, rollback(tx)))
			return
		}
		if ch.err == nil {
			kept++
		}
	}
	if kept == 0 {
		if err := rollback(tx); err != nil {
			failAll(group, err)
		}
		return
	}
	if err := tx.Commit(); err != nil {
		failAll(group, fmt.Errorf("commit: %w", err))
	}
}

// next takes one more change for a group that has so many since begun, or nil: no
// one waits, or it is enough for one transaction.
func (c *committer) next(have int, begun time.Time) *change {
	if have == maxGroup || time.Since(begun) > groupPatience {
		return nil
	}
	select {
	case ch := <-c.waiting: // nil once it is closed
		return ch
	default:
		return nil
	}
}

// within runs do in a savepoint: when it fails, nothing of it stays.
func within(ctx context.Context, tx *sql.Tx, do func(context.Context, *sql.Tx) error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT change"); err != nil {
		return fmt.Errorf("%w: begin change: %w", errGroupBroken, err)
	}
	err := guarded(ctx, tx, do)
	end := "RELEASE change"
	if err != nil {
		end = "ROLLBACK TO change; RELEASE change"
	}
	if _, endErr := tx.ExecContext(ctx, end); endErr != nil {
		return fmt.Errorf("%w: %w", errGroupBroken, errors.Join(err, endErr))
	}
	return err
}

// guarded turns a panic into an error: others share the transaction.
func guarded(ctx context.Context, tx *sql.Tx, do func(context.Context, *sql.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("change panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx, tx)
}

// valued is a context with the values of another one.
type valued struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (v valued) Value(key any) any {
	if x := v.Context.Value(key); x != nil {
		return x
	}
	return v.values.Value(key)
}

// rollback undoes the transaction, if the database or the end of its context has
// not done so already.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) && sqliteCode(err) == 0 {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// failAll gives err to every change that has not failed for itself.
func failAll(group []*change, err error) {
	for _, ch := range group {
		if ch.err == nil || errors.Is(ch.err, errGroupBroken) {
			ch.err = err
		}
	}
}
