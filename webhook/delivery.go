package webhook

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/riverqueue/river"

	"github.com/regpath/diagnose/playbooks"
)

// deliveryArgs is River's job: one incident for one courier.
type deliveryArgs struct {
	Incident string `json:"incident"`
	Courier  string `json:"courier"`
	// delay is until the next attempt; it goes from Work to NextRetry.
	delay time.Duration
}

// Kind implements river.JobArgs.
func (deliveryArgs) Kind() string { return "delivery" }

// courierWorker calls the couriers for River.
type courierWorker struct {
	river.WorkerDefaults[deliveryArgs]
	inbox *Inbox
}

// NextRetry implements river.Worker.
func (w *courierWorker) NextRetry(job *river.Job[deliveryArgs]) time.Time {
	return time.Now().Add(max(job.Args.delay, 10*time.Millisecond))
}

// delivery is a row of deliveries, as it was when the attempt began.
type delivery struct {
	wanted   int64
	attempts int
	since    time.Time
}

// Work implements river.Worker.
func (w *courierWorker) Work(ctx context.Context, job *river.Job[deliveryArgs]) error {
	ctx, unbind := w.inbox.lease.bind(ctx)
	defer unbind()
	courier, known := w.inbox.all[job.Args.Courier]
	if !known {
		job.Args.delay = maxDelay
		return fmt.Errorf("no courier %q", job.Args.Courier)
	}
	in, d, err := w.begin(ctx, job.Args)
	if errors.Is(err, sql.ErrNoRows) {
		return river.JobCancel(err) // pruned
	}
	if err != nil {
		job.Args.delay = firstDelay
		return err
	}
	err = w.call(ctx, courier, in, &memo{inbox: w.inbox, incident: in.ID, attempt: d.attempts})
	hopeless, isHopeless := errors.AsType[*undeliverableError](err)
	switch {
	case err == nil:
		if err = w.finish(ctx, job, d, nil); err == nil {
			w.inbox.metrics.delivered(job.Args.Courier, w.inbox.opts.Now().Sub(d.since))
			return nil
		}
	case isHopeless:
		w.inbox.metrics.undelivered(job.Args.Courier, "undeliverable")
		w.inbox.opts.Logger.ErrorContext(ctx, "not deliverable: kept until there is news or a restart",
			"incident", in.ID, "courier", job.Args.Courier, "err", loggable(hopeless.Error(), 500))
		if err = w.finish(ctx, job, d, hopeless); err == nil {
			return nil
		}
	case errors.Is(ctx.Err(), context.Canceled):
		return err // the process is stopping: the next one takes it up at once
	}
	w.inbox.metrics.undelivered(job.Args.Courier, "failed")
	job.Args.delay = Backoff(d.attempts)
	if after, ok := RetryDelay(err); ok {
		job.Args.delay = after
	}
	w.inbox.opts.Logger.WarnContext(ctx, "delivery failed, will be repeated", "incident", in.ID, "courier", job.Args.Courier,
		"attempt", d.attempts, "delay", job.Args.delay, "err", loggable(err.Error(), 500))
	return errors.Join(err, w.fail(ctx, job.Args, err))
}

// begin counts the attempt before it is made and loads the incident.
func (w *courierWorker) begin(ctx context.Context, args deliveryArgs) (playbooks.Incident, delivery, error) {
	var in playbooks.Incident
	var d delivery
	err := w.inbox.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var since string
		if err := tx.QueryRowContext(ctx, `UPDATE deliveries SET attempts = attempts + 1 WHERE incident = $1 AND courier = $2
			RETURNING wanted, attempts, since`, args.Incident, args.Courier).Scan(&d.wanted, &d.attempts, &since); err != nil {
			return fmt.Errorf("count attempt: %w", err)
		}
		d.since = fromStamp(since)
		var err error
		in, _, err = load(ctx, tx, args.Incident)
		return err
	})
	return in, d, err
}

// call calls the courier and turns a panic into an error.
func (w *courierWorker) call(ctx context.Context, c Courier, in playbooks.Incident, m Memo) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.inbox.opts.Logger.ErrorContext(ctx, "courier panicked", "incident", in.ID, "stack", string(debug.Stack()))
			err = fmt.Errorf("courier panicked: %v", p)
		}
	}()
	return c.Carry(ctx, in, m)
}

// finish records, in one transaction, that the job is done and what came of it:
// the news it saw is delivered, or is given up for the reason why. If there was
// more news meanwhile, it puts in the next job.
func (w *courierWorker) finish(ctx context.Context, job *river.Job[deliveryArgs], d delivery, why error) error {
	ctx, cancel := outlasting(ctx)
	defer cancel()
	seen, text := d.wanted, ""
	if why != nil {
		// Never empty: it says that there is no job any more.
		seen, text = 0, cmp.Or(storable(why.Error(), 500), "not deliverable")
	}
	var queues []string
	err := w.inbox.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		queues = nil
		if err := complete(ctx, tx, job); err != nil {
			return err
		}
		var wanted int64
		if err := tx.QueryRowContext(ctx, `UPDATE deliveries SET done = CASE WHEN done < $1 THEN $1 ELSE done END, attempts = 0, error = $2,
				since = CASE WHEN wanted > $3 THEN $4 ELSE since END
			WHERE incident = $5 AND courier = $6 RETURNING wanted`,
			seen, text, d.wanted, toStamp(w.inbox.opts.Now()), job.Args.Incident, job.Args.Courier).Scan(&wanted); err != nil {
			return fmt.Errorf("record delivery: %w", err)
		}
		if wanted == d.wanted {
			return nil
		}
		var err error
		queues, err = w.inbox.enqueueDeliveries(ctx, tx, job.Args.Incident, job.Args.Courier)
		return err
	})
	if err != nil {
		return fmt.Errorf("finish delivery: %w", err)
	}
	w.inbox.wake(queues...)
	return nil
}

// fail notes for List why the delivery does not get on.
func (w *courierWorker) fail(ctx context.Context, args deliveryArgs, cause error) error {
	return w.inbox.noteFailure(ctx, cause, `UPDATE deliveries SET error = $1 WHERE incident = $2 AND courier = $3`, args.Incident, args.Courier)
}
