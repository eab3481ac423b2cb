package webhook

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/regpath/diagnose/playbooks"
)

// Courier carries what there is to say about incidents to one place, such as a
// channel. Every courier has a queue and workers of its own, so that one whose
// place is slow or dead delays neither the work nor another courier.
type Courier interface {
	// Carry brings the place up to date with the incident as it stands now. It is
	// called whenever there is news for it, the opening of an incident included (see
	// Options.Audience), and after Memo.Put has named it; several of these that come
	// together, or while Carry runs, lead to one call. Calls for one incident and
	// courier never overlap; they do overlap with Work and with other couriers.
	//
	// An error means "again later", as it does for Work. One wrapped by
	// Undeliverable means that repeating is useless: the next call is made when
	// there is news or the process is restarted.
	Carry(ctx context.Context, in playbooks.Incident, memo Memo) error
}

// Undeliverable wraps an error that Carry returns: what was to be said is kept
// and listed as undelivered, but not tried again until something changes.
func Undeliverable(err error) error { return &undeliverableError{err} }

type undeliverableError struct{ error }

func (e *undeliverableError) Unwrap() error { return e.error }

// courierWorkers is how many incidents one courier carries at a time: more than
// one, so that a call that hangs does not hold up all others.
const courierWorkers = 8

// courierName is what the name of a courier must look like: it is part of the
// name of its queue.
var courierName = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// maxCourierName is in bytes; River's own limit for the queue is 64.
const maxCourierName = 48

// ValidCourierName says what is wrong with a name; nil if nothing is.
func ValidCourierName(name string) error {
	if len(name) > maxCourierName || !courierName.MatchString(name) {
		return fmt.Errorf("want at most %d lower-case letters, digits, single dashes and underscores between them", maxCourierName)
	}
	return nil
}

// queueOf is the queue of a courier.
func queueOf(courier string) string { return "courier-" + courier }

// deliveryArgs is River's job: one incident for one courier.
type deliveryArgs struct {
	Incident string `json:"incident"`
	Courier  string `json:"courier"`
	// delay is until the next attempt; it goes from Work to NextRetry.
	delay time.Duration
}

// Kind implements river.JobArgs.
func (deliveryArgs) Kind() string { return "delivery" }

// announceNews announces an incident to those that news of the alerts is for, and to
// those that have been called for it.
func (in *Inbox) announceNews(ctx context.Context, tx *sql.Tx, id string, alerts []playbooks.Alert) ([]string, error) {
	audience := in.callers()
	if in.opts.Audience != nil {
		audience = in.opts.Audience(alerts)
		if err := each(ctx, tx, func(scan func(...any) error) error {
			var courier string
			err := scan(&courier)
			if _, calls := in.opts.Couriers[courier]; calls && !slices.Contains(audience, courier) {
				audience = append(slices.Clip(audience), courier)
			}
			return err
		}, `SELECT courier FROM deliveries WHERE incident = $1`, id); err != nil {
			return nil, fmt.Errorf("list couriers: %w", err)
		}
	}
	return in.announce(ctx, tx, id, audience...)
}

// announce makes sure that the couriers carry the incident once more. It returns
// the queues that are to be woken after tx.
func (in *Inbox) announce(ctx context.Context, tx *sql.Tx, id string, couriers ...string) ([]string, error) {
	if len(couriers) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(couriers)
	if err != nil {
		return nil, fmt.Errorf("list couriers: %w", err)
	}
	// What is still to be delivered, and has not failed, certainly has a job.
	var idle []string
	err = each(ctx, tx, func(scan func(...any) error) error {
		var courier string
		var waits bool
		err := scan(&courier, &waits)
		if !waits {
			idle = append(idle, courier)
		}
		return err
	}, `INSERT INTO deliveries (incident, courier, wanted, since) SELECT $1, value, 1, $2 FROM json_each($3) WHERE TRUE
		ON CONFLICT (incident, courier) DO UPDATE SET since = CASE WHEN deliveries.done < deliveries.wanted THEN deliveries.since ELSE excluded.since END,
			wanted = deliveries.wanted + 1, attempts = 0
		RETURNING courier, done < wanted - 1 AND error = ''`,
		id, toStamp(in.opts.Now()), string(list))
	if err != nil {
		return nil, fmt.Errorf("note delivery: %w", err)
	}
	return in.enqueueDeliveries(ctx, tx, id, idle...)
}

// River takes jobs of the first priority before those of the others.
const (
	priorityUrgent = 1
	priorityUsual  = 2
)

// enqueueDeliveries makes sure that each of the couriers has a job for the
// incident that is not finished. It returns the queues that have a new one. Urgent
// incidents go before others: a channel takes a message a second, and a storm of
// warnings would fill it for minutes.
func (in *Inbox) enqueueDeliveries(ctx context.Context, tx *sql.Tx, id string, couriers ...string) ([]string, error) {
	if len(couriers) == 0 {
		return nil, nil
	}
	var severity string
	if err := tx.QueryRowContext(ctx, `SELECT severity FROM incidents WHERE id = $1`, id).Scan(&severity); err != nil {
		return nil, fmt.Errorf("look up the severity: %w", err)
	}
	priority := priorityUsual
	if in.workQueue(severity) == urgentQueue {
		priority = priorityUrgent
	}
	jobs := make([]river.InsertManyParams, 0, len(couriers))
	for _, courier := range couriers {
		jobs = append(jobs, river.InsertManyParams{Args: deliveryArgs{Incident: id, Courier: courier}, InsertOpts: &river.InsertOpts{
			Queue: queueOf(courier), Priority: priority, MaxAttempts: maxAttempts, UniqueOpts: once(),
		}})
	}
	results, err := in.client.InsertManyTx(ctx, tx, jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue deliveries: %w", err)
	}
	var queues []string
	for _, r := range results {
		if !r.UniqueSkippedAsDuplicate {
			queues = append(queues, r.Job.Queue)
		}
	}
	return queues, nil
}

// once keeps a second job with the same arguments out until the first is done.
func once() river.UniqueOpts {
	return river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
		rivertype.JobStateRetryable, rivertype.JobStateScheduled,
	}}
}

// couriers lists the names of all couriers.
func (in *Inbox) couriers() []string {
	return slices.Sorted(maps.Keys(in.all))
}

// callers lists those that news is for.
func (in *Inbox) callers() []string {
	return slices.Sorted(maps.Keys(in.opts.Couriers))
}

// redeliver gives every delivery that was given up another chance: it has no job any
// more. What was to be told by couriers that there are no more is told by those that
// there are. After a storm there may be thousands, so that they go in by and by.
func (in *Inbox) redeliver(ctx context.Context) error {
	idle := map[deliveryArgs]bool{}
	orphaned := map[string]bool{}
	if err := each(ctx, in.store.write, func(scan func(...any) error) error {
		var d deliveryArgs
		err := scan(&d.Incident, &d.Courier)
		if _, known := in.all[d.Courier]; known {
			idle[d] = true
		} else {
			orphaned[d.Incident] = true
		}
		return err
	}, `SELECT incident, courier FROM deliveries WHERE done < wanted`); err != nil {
		return fmt.Errorf("list undelivered: %w", err)
	}
	if err := each(ctx, in.store.write, func(scan func(...any) error) error {
		var d deliveryArgs
		err := scan(&d.Incident, &d.Courier)
		delete(idle, d)
		return err
	}, `SELECT args ->> 'incident', args ->> 'courier' FROM river_job WHERE kind = 'delivery' AND `+unfinished); err != nil {
		return fmt.Errorf("list deliveries under way: %w", err)
	}
	for part := range slices.Chunk(slices.Collect(maps.Keys(idle)), reclaimedAtOnce) {
		if err := in.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
			for _, d := range part {
				if _, err := in.enqueueDeliveries(ctx, tx, d.Incident, d.Courier); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for id := range orphaned {
		if err := in.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
			inc, _, err := load(ctx, tx, id)
			if err == nil {
				_, err = in.announceNews(ctx, tx, id, inc.Alerts)
			}
			return err
		}); err != nil {
			return fmt.Errorf("pass on what no courier tells any more: %w", err)
		}
	}
	return nil
}

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
