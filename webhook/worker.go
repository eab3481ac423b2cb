package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/riverqueue/river"

	"github.com/regpath/diagnose/playbooks"
)

// Worker works on incidents.
type Worker interface {
	// Work does what there is to do about an incident as it stands now: it is
	// called once the incident is opened, and again whenever there is news:
	// alerts joined or ended, or it was resolved (then in.ResolvedAt is set).
	// News that comes while Work runs, however much, leads to one more call
	// afterwards. Calls for one incident never overlap.
	//
	// Work is called at least once for each state: it must return when ctx
	// ends, and must be idempotent, keeping in memo what it has done. An error
	// means "again later": after RetryAfter's time, or a growing one of 1 second
	// to 5 minutes, for about a day, and once more when the process is
	// restarted. A panic counts as an error.
	Work(ctx context.Context, in playbooks.Incident, memo Memo) error
}

// lastWords bounds what is still written for a run whose context has ended. It
// is more than the busiest disk takes and less than anybody waits for a stop.
const lastWords = 5 * time.Second

// outlasting returns a context that survives the end of ctx by lastWords.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWords)
}

// incidentArgs is River's job: one incident.
type incidentArgs struct {
	Incident string `json:"incident"`
	// delay is until the next attempt; it goes from Work to NextRetry.
	delay time.Duration
}

// Kind implements river.JobArgs.
func (incidentArgs) Kind() string { return "incident" }

// incidentWorker calls the Worker for River.
type incidentWorker struct {
	river.WorkerDefaults[incidentArgs]
	inbox *Inbox
}

// NextRetry implements river.Worker.
func (w *incidentWorker) NextRetry(job *river.Job[incidentArgs]) time.Time {
	// River wants a time that is not past.
	return time.Now().Add(max(job.Args.delay, 10*time.Millisecond))
}

// Work implements river.Worker.
func (w *incidentWorker) Work(ctx context.Context, job *river.Job[incidentArgs]) error {
	ctx, unbind := w.inbox.lease.bind(ctx)
	defer unbind()
	in, row, err := w.begin(ctx, job.Args.Incident)
	if errors.Is(err, sql.ErrNoRows) {
		return river.JobCancel(err) // pruned
	}
	if err != nil {
		job.Args.delay = firstDelay
		return err
	}
	begun := time.Now()
	err = w.call(ctx, in, &memo{inbox: w.inbox, incident: row.id, attempt: row.attempts})
	if err == nil {
		err = w.finish(ctx, job, row)
	}
	w.inbox.metrics.run(time.Since(begun), ctx.Err(), err)
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		// The process is stopping: the next one takes it up at once.
		w.inbox.opts.Logger.InfoContext(ctx, "work on incident interrupted", "incident", row.id)
		return err
	}
	job.Args.delay = Backoff(row.attempts)
	if after, ok := RetryDelay(err); ok {
		job.Args.delay = after
	}
	w.inbox.opts.Logger.WarnContext(ctx, "work on incident failed, will be repeated",
		"incident", row.id, "attempt", row.attempts, "delay", job.Args.delay, "err", loggable(err.Error(), 500))
	return errors.Join(err, w.fail(ctx, row.id, err))
}

// begin counts the attempt before it is made and loads the incident.
func (w *incidentWorker) begin(ctx context.Context, id string) (playbooks.Incident, *incident, error) {
	var in playbooks.Incident
	var row *incident
	err := w.inbox.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE incidents SET attempts = attempts + 1 WHERE id = $1`, id); err != nil {
			return fmt.Errorf("count attempt: %w", err)
		}
		var err error
		in, row, err = load(ctx, tx, id)
		return err
	})
	return in, row, err
}

// call calls the Worker and turns a panic into an error.
func (w *incidentWorker) call(ctx context.Context, in playbooks.Incident, memo Memo) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.inbox.opts.Logger.ErrorContext(ctx, "work on incident panicked", "incident", in.ID, "stack", string(debug.Stack()))
			err = fmt.Errorf("work panicked: %v", p)
		}
	}()
	return w.inbox.opts.Worker.Work(ctx, in, memo)
}

// finish records, in one transaction, what the run has seen and that its job is
// done; if there was news meanwhile, it puts in the next job. Done apart, news
// between the two would find the job unfinished, add none, and be lost.
func (w *incidentWorker) finish(ctx context.Context, job *river.Job[incidentArgs], row *incident) error {
	ctx, cancel := outlasting(ctx)
	defer cancel()
	var queues []string
	err := w.inbox.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		queues = nil
		if err := complete(ctx, tx, job); err != nil {
			return err
		}
		var more bool
		if err := tx.QueryRowContext(ctx, `UPDATE incidents SET worked = $1, attempts = 0, error = '' WHERE id = $2 RETURNING worked < revision, severity`,
			row.revision, row.id).Scan(&more, &row.severity); err != nil {
			return fmt.Errorf("record run: %w", err)
		}
		if !more {
			return nil
		}
		var err error
		queues, err = w.inbox.enqueue(ctx, tx, row, true)
		return err
	})
	if err != nil {
		return fmt.Errorf("finish run: %w", err)
	}
	w.inbox.wake(queues...)
	return nil
}

// fail notes for List why the work does not get on.
func (w *incidentWorker) fail(ctx context.Context, id string, cause error) error {
	return w.inbox.noteFailure(ctx, cause, `UPDATE incidents SET error = $1 WHERE id = $2`, id)
}
