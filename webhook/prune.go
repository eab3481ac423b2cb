package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/riverqueue/river"
)

// keepEnds is how long the end of an alert is remembered: no sender delivers
// news later than that.
const keepEnds = 7 * 24 * time.Hour

// pruneArgs is River's hourly job that keeps the store small.
type pruneArgs struct{}

// Kind implements river.JobArgs.
func (pruneArgs) Kind() string { return "prune" }

type pruneWorker struct {
	river.WorkerDefaults[pruneArgs]
	inbox *Inbox
}

// Work implements river.Worker.
func (w *pruneWorker) Work(ctx context.Context, _ *river.Job[pruneArgs]) error {
	return w.inbox.prune(ctx)
}

// prune gives up open incidents that nothing was heard of for too long. It
// deletes ended ones that are past their retention, unless news of them is still
// to be worked on, and ends and episodes that are too old to matter.
func (in *Inbox) prune(ctx context.Context) error {
	now := in.opts.Now()
	silent := now.Add(-in.opts.Silence)
	unheard, err := listIncidents(ctx, in.store.read, `state = 'open' AND updated_at < $1`, toStamp(silent))
	if err != nil {
		return fmt.Errorf("prune store: %w", err)
	}
	for _, inc := range unheard { // each for itself: after a storm they are thousands
		if _, err := in.giveUp(ctx, inc.id, silent); err != nil {
			return fmt.Errorf("prune store: %w", err)
		}
	}
	err = in.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM incidents WHERE state = 'resolved' AND worked = revision AND updated_at < $1`,
			toStamp(now.Add(-in.opts.Retention))); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM episodes WHERE at < $1`, toStamp(now.Add(-2*today))); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM ended WHERE seen_at < $1`, toStamp(now.Add(-keepEnds)))
		return err
	})
	if err != nil {
		return fmt.Errorf("prune store: %w", err)
	}
	in.wakeAll()
	return nil
}
