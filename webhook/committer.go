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
	// maxPatient is how many patient changes at most go into a transaction while there
	// are others.
	maxPatient = 4
	// lull is how long after the last change that somebody waited for more of them are
	// to be expected: who has his answer sends the next one.
	lull = 20 * time.Millisecond
	// breath is what patient changes wait for those then.
	breath = time.Millisecond
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
	// patient says that no sender waits for it: others go first.
	patient bool
	err     error
	// taken is set by whoever decides on the change: the committer that puts it
	// into a transaction, or its caller who waits no longer.
	taken atomic.Bool
	// settled is closed once err is final.
	settled chan struct{}
}

// committer is the only writer of the store in this process beside River and, where the
// store is shared, the lease. To make a commit durable takes the disk as long for one change as for a hundred: so those that
// come during one commit share the next. Each has a savepoint of its own, and
// fails or is kept for itself. There are two lines, so that in a storm the work on it
// does not hold up the answers: but some of that goes through with every transaction.
type committer struct {
	begin func(context.Context) (*sql.Tx, error)
	// whole says that no statement is cut off by the end of the group's time, only the
	// transaction after it: SQLite, whose statements are short, takes longer to watch for
	// that than to carry most of them out.
	whole bool
	// mu keeps the lines from being closed while somebody sends.
	mu               sync.RWMutex
	closed           bool
	waiting, patient chan *change
	done             chan struct{}
	// asked is when somebody last waited for a change; it is run's.
	asked time.Time
}

func newCommitter(begin func(context.Context) (*sql.Tx, error), whole bool) *committer {
	c := &committer{
		begin: begin, whole: whole, done: make(chan struct{}),
		waiting: make(chan *change, maxWaiting), patient: make(chan *change, maxWaiting),
	}
	go c.run()
	return c
}

// behind reports whether so many changes wait that no more should be taken in.
func (c *committer) behind() bool { return len(c.waiting) == cap(c.waiting) }

// commit has do run in a transaction: all of it is durable when commit returns
// nil, and nothing of it otherwise. The context that do gets has the values of ctx
// and ends with the group's time at the earliest: one caller who leaves must not break what is
// others' too. The end of ctx takes the change back if it still waits for its
// transaction.
func (c *committer) commit(ctx context.Context, patient bool, do func(context.Context, *sql.Tx) error) error {
	ch := &change{caller: ctx, do: do, patient: patient, settled: make(chan struct{})}
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
	line := c.waiting
	if ch.patient {
		line = c.patient
	}
	select {
	case line <- ch:
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
		close(c.patient)
	}
	<-c.done
}

func (c *committer) run() {
	defer close(c.done)
	waiting, patient := c.waiting, c.patient
	for waiting != nil || patient != nil {
		if first := c.hurried(); first != nil {
			c.transact(first)
			continue
		}
		select {
		case first, ok := <-waiting:
			if !ok {
				waiting = nil
				continue
			}
			c.transact(first)
		case first, ok := <-patient:
			if !ok {
				patient = nil
				continue
			}
			c.transact(first)
		}
	}
}

// hurried returns a change that somebody waits for, nil if there is none: in a storm,
// if none comes within a breath.
func (c *committer) hurried() *change {
	select {
	case first := <-c.waiting: // nil once it is closed
		return first
	default:
	}
	if !c.storm() {
		return nil
	}
	select {
	case first := <-c.waiting:
		return first
	case <-time.After(breath):
		return nil
	}
}

// storm reports whether somebody has waited for a change just now.
func (c *committer) storm() bool { return time.Since(c.asked) < lull }

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
	statements := ctx
	if c.whole {
		statements = context.WithoutCancel(ctx)
	}
	g := batch{begun: time.Now()}
	defer func() {
		for _, ch := range g.changes {
			close(ch.settled)
		}
	}()
	kept := 0
	for ch := first; ch != nil; ch = c.next(&g) {
		// Only now, when its turn has come: until then its caller may still go away.
		if !ch.taken.CompareAndSwap(false, true) {
			continue
		}
		g.changes = append(g.changes, ch)
		if ch.patient {
			g.patient++
		} else {
			c.asked = time.Now()
		}
		if ch.err = within(valued{statements, ch.caller}, tx, ch.do); errors.Is(ch.err, errGroupBroken) {
			failAll(g.changes, errors.Join(ch.err, rollback(tx)))
			return
		}
		if ch.err == nil {
			kept++
		}
	}
	if kept == 0 {
		if err := rollback(tx); err != nil {
			failAll(g.changes, err)
		}
		return
	}
	if err := tx.Commit(); err != nil {
		failAll(g.changes, fmt.Errorf("commit: %w", err))
	}
}

// batch is the changes that share a transaction.
type batch struct {
	changes []*change
	patient int // of them
	begun   time.Time
}

// next takes one more change for a group, or nil: no one waits, or it is enough for
// one transaction.
func (c *committer) next(g *batch) *change {
	full := len(g.changes) >= maxGroup || time.Since(g.begun) > groupPatience
	if !full {
		select {
		case ch := <-c.waiting: // nil once it is closed
			if ch != nil {
				return ch
			}
		default:
		}
	} else if g.patient > 0 {
		return nil
	}
	if g.patient >= maxPatient && (g.patient < len(g.changes) || c.storm()) {
		return nil
	}
	select {
	case ch := <-c.patient:
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
