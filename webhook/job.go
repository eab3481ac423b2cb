package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/riverqueue/river"

	"github.com/regpath/diagnose/playbooks"
)

// duty is what a job is for: to have an incident worked on, or carried to a place.
// carryOut walks both through the same life.
type duty interface {
	// begin counts the attempt, before it is made, and loads what it is about.
	begin(ctx context.Context, tx *sql.Tx) (in playbooks.Incident, attempts int, err error)
	// call makes the attempt. An error means "again later".
	call(ctx context.Context, in playbooks.Incident, memo Memo) error
	// finish records what has come of all news that begin saw. If there was more
	// meanwhile, it puts in the next job. It returns the queues that are to be woken
	// after tx.
	finish(ctx context.Context, tx *sql.Tx) (queues []string, err error)
	// fail notes for List why it does not get on.
	fail(ctx context.Context, tx *sql.Tx, why string) error
	// count counts the attempt in the metrics.
	count(outcome string, took time.Duration)
}

// How a call ends.
const (
	callOK          = "ok"
	callFailed      = "failed"
	callInterrupted = "interrupted" // the process is stopping, or has lost its lease
)

// carryOut does what a job is for, once. With an error it returns the time until the
// next attempt.
func carryOut[A river.JobArgs](ctx context.Context, in *Inbox, job *river.Job[A], d duty) (delay time.Duration, err error) {
	ctx, unbind := in.lease.bind(ctx)
	defer unbind()
	var inc playbooks.Incident
	var attempts int
	err = in.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		inc, attempts, err = d.begin(ctx, tx)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, river.JobCancel(err) // pruned
	}
	if err != nil {
		return firstDelay, err
	}
	logger := in.opts.Logger.With("incident", inc.ID, "queue", job.Queue)
	begun := time.Now()
	if err = guardedCall(ctx, logger, d, inc, &memo{inbox: in, incident: inc.ID, attempt: attempts}); err == nil {
		err = finish(ctx, in, job, d)
	}
	took := time.Since(begun)
	switch {
	case err == nil:
		d.count(callOK, took)
		return 0, nil
	case errors.Is(ctx.Err(), context.Canceled):
		d.count(callInterrupted, took)
		logger.InfoContext(ctx, "work interrupted, another process takes it up")
		return 0, err
	}
	d.count(callFailed, took)
	delay = Backoff(attempts)
	if after, ok := RetryDelay(err); ok {
		delay = after
	}
	logger.WarnContext(ctx, "work failed, will be repeated", "attempt", attempts, "delay", delay, "err", loggable(err.Error(), 500))
	return delay, errors.Join(err, in.noteFailure(ctx, d, err))
}

// guardedCall turns a panic of the call into an error.
func guardedCall(ctx context.Context, logger *slog.Logger, d duty, inc playbooks.Incident, m Memo) (err error) {
	defer func() {
		if p := recover(); p != nil {
			logger.ErrorContext(ctx, "work panicked", "stack", string(debug.Stack()))
			err = fmt.Errorf("work panicked: %v", p)
		}
	}()
	return d.call(ctx, inc, m)
}

// finish records, in one transaction, what has come of the call and that its job is
// done. Done apart, news between the two would find the job unfinished, add none, and
// be lost.
func finish[A river.JobArgs](ctx context.Context, in *Inbox, job *river.Job[A], d duty) error {
	ctx, cancel := outlasting(ctx)
	defer cancel()
	var queues []string
	if err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := complete(ctx, tx, job)
		if err == nil {
			queues, err = d.finish(ctx, tx)
		}
		return err
	}); err != nil {
		return fmt.Errorf("finish job: %w", err)
	}
	in.wake(queues...)
	return nil
}

// noteFailure writes the cause down even when ctx has ended.
func (in *Inbox) noteFailure(ctx context.Context, d duty, cause error) error {
	ctx, cancel := outlasting(ctx)
	defer cancel()
	if err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return d.fail(ctx, tx, storable(cause.Error(), 500))
	}); err != nil {
		return fmt.Errorf("note failure: %w", err)
	}
	return nil
}

// errTakenUp says that another agent has the job: this one was not heard of.
var errTakenUp = errors.New("the job was taken up by another agent")

// complete ends the job as part of tx, if it is still this agent's.
func complete[T river.JobArgs](ctx context.Context, tx *sql.Tx, job *river.Job[T]) error {
	// An update, so that nobody takes it up before the end of tx.
	result, err := tx.ExecContext(ctx, `UPDATE river_job SET attempt = attempt WHERE id = $1 AND state = 'running' AND attempt = $2`, job.ID, job.Attempt)
	if err != nil {
		return fmt.Errorf("complete job: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errTakenUp, err)
	}
	if _, err := river.JobCompleteTx[wakingDriver](ctx, tx, job); err != nil {
		return fmt.Errorf("complete job: %w", err)
	}
	return nil
}

// lastWords bounds what is still written for a run whose context has ended. It
// is more than the busiest disk takes and less than anybody waits for a stop.
const lastWords = 5 * time.Second

// outlasting returns a context that survives the end of ctx by lastWords.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWords)
}
