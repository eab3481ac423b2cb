package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// defaultTerm is how long an agent that is not heard of keeps its jobs. It is
// more than a busy database takes to answer one statement, and no more than
// people wait for a report.
const defaultTerm = 15 * time.Second

// beatsPerTerm is how often an agent reports within a term.
const beatsPerTerm = 5

// lease is an agent's claim to the jobs that it runs, on a store that it shares.
// The agent reports at every beat; the others take up its jobs once it has not
// done so for a term. An agent that cannot report knows that, and calls off its
// work before they begin.
type lease struct {
	store *store
	// id is River's name for the agent, which it writes on every job.
	id   string
	term time.Duration
	// took is called when jobs of others were taken up.
	took func(jobs int64)
	// failed is called when a beat was in vain.
	failed func(error)

	mu sync.Mutex
	// held ends when the lease is lost; there is a new one once it is held again.
	held    context.Context
	release context.CancelFunc
	expiry  *time.Timer

	stop context.CancelFunc
	done chan struct{}
}

// takeLease reports for the first time, and goes on to do so until end.
func takeLease(ctx context.Context, s *store, term time.Duration, took func(int64), failed func(error)) (*lease, error) {
	l := &lease{store: s, id: rand.Text(), term: term, took: took, failed: failed, done: make(chan struct{})}
	l.expiry = time.AfterFunc(term, l.lose)
	if err := l.beat(ctx); err != nil {
		l.expiry.Stop()
		return nil, fmt.Errorf("report as an agent: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.run(life)
	return l, nil
}

func (l *lease) run(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.term / beatsPerTerm)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := l.beat(ctx); err != nil && ctx.Err() == nil {
			l.failed(err)
		}
	}
}

// beat reports, and takes up the jobs of those who have not done so for a term.
func (l *lease) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.term/2)
	defer cancel()
	begun := time.Now()
	if _, err := l.store.write.ExecContext(ctx, `INSERT INTO agents (id, seen_at) VALUES ($1, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`, l.id); err != nil {
		return err
	}
	l.renew(l.term - time.Since(begun))
	return l.takeOver(ctx)
}

// takeOver frees the jobs of the dead, and the lead of the queue if it was theirs.
func (l *lease) takeOver(ctx context.Context) (err error) {
	tx, err := l.store.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rollback(tx)) }()
	if _, err := tx.ExecContext(ctx, `DELETE FROM agents WHERE seen_at < clock_timestamp() - make_interval(secs => $1)`, l.term.Seconds()); err != nil {
		return fmt.Errorf("list the dead: %w", err)
	}
	result, err := tx.ExecContext(ctx, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state = 'running'
		AND NOT EXISTS (SELECT 1 FROM agents WHERE agents.id = attempted_by[array_upper(attempted_by, 1)])`)
	if err != nil {
		return fmt.Errorf("take up jobs: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM river_leader WHERE leader_id NOT IN (SELECT id FROM agents)`); err != nil {
		return fmt.Errorf("free the lead: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err == nil && n > 0 {
		l.took(n)
	}
	return nil
}

// renew holds the lease for d more.
func (l *lease) renew(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry.Reset(d)
	if l.held == nil || l.held.Err() != nil {
		l.held, l.release = context.WithCancel(context.Background())
	}
}

// lose calls off what goes on under the lease.
func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.release != nil {
		l.release()
	}
}

// agent returns River's name for the agent; River makes one up without a lease.
func (l *lease) agent() string {
	if l == nil {
		return ""
	}
	return l.id
}

// bind returns a context that ends with ctx, and when the lease is lost. A nil
// lease cannot be lost.
func (l *lease) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if l == nil {
		return ctx, cancel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	stop := context.AfterFunc(l.held, cancel)
	return ctx, func() { stop(); cancel() }
}

// end gives the lease back: with clean, which says that nothing runs any more,
// at once; else the others wait for the end of the term.
func (l *lease) end(ctx context.Context, clean bool) error {
	if l == nil {
		return nil
	}
	l.stop()
	<-l.done
	l.expiry.Stop()
	l.lose()
	if !clean {
		return nil
	}
	if _, err := l.store.write.ExecContext(ctx, `DELETE FROM agents WHERE id = $1`, l.id); err != nil {
		return fmt.Errorf("report as gone: %w", err)
	}
	return nil
}
