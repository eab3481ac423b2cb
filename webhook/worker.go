package webhook

import (
	"context"
	"database/sql"
	"fmt"
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
	return due(job.Args.delay)
}

// Work implements river.Worker.
func (w *incidentWorker) Work(ctx context.Context, job *river.Job[incidentArgs]) (err error) {
	job.Args.delay, err = carryOut(ctx, w.inbox, job, &work{inbox: w.inbox, id: job.Args.Incident})
	return err
}

// work is a call of the Worker.
type work struct {
	inbox *Inbox
	id    string
	// row is the incident as it was when the attempt began.
	row *incident
}

var _ duty = (*work)(nil)

// begin implements duty.
func (w *work) begin(ctx context.Context, tx *sql.Tx) (in playbooks.Incident, attempts int, err error) {
	if _, err := tx.ExecContext(ctx, `UPDATE incidents SET attempts = attempts + 1 WHERE id = $1`, w.id); err != nil {
		return in, 0, fmt.Errorf("count attempt: %w", err)
	}
	if in, w.row, err = load(ctx, tx, w.id); err != nil {
		return in, 0, err
	}
	return in, w.row.attempts, nil
}

// call implements duty.
func (w *work) call(ctx context.Context, in playbooks.Incident, memo Memo) error {
	return w.inbox.opts.Worker.Work(ctx, in, memo)
}

// finish implements duty.
func (w *work) finish(ctx context.Context, tx *sql.Tx) ([]string, error) {
	var more bool
	if err := tx.QueryRowContext(ctx, `UPDATE incidents SET worked = $1, attempts = 0, error = '', pending_since = $2
		WHERE id = $3 RETURNING worked < revision, severity`, w.row.revision, toStamp(w.inbox.opts.Now()), w.id).Scan(&more, &w.row.severity); err != nil {
		return nil, fmt.Errorf("record run: %w", err)
	}
	if !more {
		return nil, nil
	}
	return w.inbox.enqueue(ctx, tx, w.row, true)
}

// fail implements duty.
func (w *work) fail(ctx context.Context, tx *sql.Tx, why string) error {
	_, err := tx.ExecContext(ctx, `UPDATE incidents SET error = $1 WHERE id = $2`, why, w.id)
	return err
}

// count implements duty.
func (w *work) count(outcome string, took time.Duration) { w.inbox.metrics.run(outcome, took) }
