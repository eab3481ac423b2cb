package webhook

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
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
func (w *courierWorker) NextRetry(job *river.Job[deliveryArgs]) time.Time { return due(job.Args.delay) }

// Work implements river.Worker.
func (w *courierWorker) Work(ctx context.Context, job *river.Job[deliveryArgs]) (err error) {
	courier, known := w.inbox.all[job.Args.Courier]
	if !known {
		job.Args.delay = maxDelay
		return fmt.Errorf("no courier %q", job.Args.Courier)
	}
	job.Args.delay, err = carryOut(ctx, w.inbox, job, &delivery{inbox: w.inbox, courier: courier, to: job.Args})
	return err
}

// delivery is a call of a courier.
type delivery struct {
	inbox   *Inbox
	courier Courier
	to      deliveryArgs
	// wanted and since are as they were when the attempt began.
	wanted int64
	since  time.Time
	// hopeless is why repeating is useless.
	hopeless error
}

var _ duty = (*delivery)(nil)

// begin implements duty.
func (d *delivery) begin(ctx context.Context, tx *sql.Tx) (in playbooks.Incident, attempts int, err error) {
	var since string
	if err := tx.QueryRowContext(ctx, `UPDATE deliveries SET attempts = attempts + 1 WHERE incident = $1 AND courier = $2
		RETURNING wanted, attempts, since`, d.to.Incident, d.to.Courier).Scan(&d.wanted, &attempts, &since); err != nil {
		return in, 0, fmt.Errorf("count attempt: %w", err)
	}
	d.since = fromStamp(since)
	in, _, err = load(ctx, tx, d.to.Incident)
	return in, attempts, err
}

// call implements duty. What is not deliverable is dealt with: it is given up.
func (d *delivery) call(ctx context.Context, in playbooks.Incident, memo Memo) error {
	err := d.courier.Carry(ctx, in, memo)
	hopeless, ok := errors.AsType[*undeliverableError](err)
	if !ok {
		return err
	}
	d.hopeless = hopeless
	d.inbox.metrics.undelivered(d.to.Courier, "undeliverable")
	d.inbox.opts.Logger.ErrorContext(ctx, "not deliverable: kept until there is news or a restart",
		"incident", in.ID, "courier", d.to.Courier, "err", loggable(hopeless.Error(), 500))
	return nil
}

// finish implements duty: the news it saw is delivered, or given up.
func (d *delivery) finish(ctx context.Context, tx *sql.Tx) ([]string, error) {
	seen, why := d.wanted, ""
	if d.hopeless != nil {
		// Never empty: it says that there is no job any more.
		seen, why = 0, cmp.Or(storable(d.hopeless.Error(), 500), "not deliverable")
	}
	var wanted int64
	if err := tx.QueryRowContext(ctx, `UPDATE deliveries SET done = CASE WHEN done < $1 THEN $1 ELSE done END, attempts = 0, error = $2,
			since = CASE WHEN wanted > $3 THEN $4 ELSE since END
		WHERE incident = $5 AND courier = $6 RETURNING wanted`,
		seen, why, d.wanted, toStamp(d.inbox.opts.Now()), d.to.Incident, d.to.Courier).Scan(&wanted); err != nil {
		return nil, fmt.Errorf("record delivery: %w", err)
	}
	if wanted == d.wanted {
		return nil, nil
	}
	return d.inbox.enqueueDeliveries(ctx, tx, d.to.Incident, d.to.Courier)
}

// fail implements duty.
func (d *delivery) fail(ctx context.Context, tx *sql.Tx, why string) error {
	_, err := tx.ExecContext(ctx, `UPDATE deliveries SET error = $1 WHERE incident = $2 AND courier = $3`, why, d.to.Incident, d.to.Courier)
	return err
}

// count implements duty.
func (d *delivery) count(outcome string, _ time.Duration) {
	switch {
	case outcome == callOK && d.hopeless == nil:
		d.inbox.metrics.delivered(d.to.Courier, d.inbox.opts.Now().Sub(d.since))
	case outcome == callFailed:
		d.inbox.metrics.undelivered(d.to.Courier, "failed")
	}
}
