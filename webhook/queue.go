package webhook

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// expressQueue is River's queue of urgent incidents; the others are in the
// default one. Each has its own workers, so that no storm of small things keeps
// a large one waiting. Its name is in the stores of all versions.
const expressQueue = "urgent"

// workQueue is the queue for incidents of that severity.
func (in *Inbox) workQueue(severity string) string {
	if in.opts.Urgent(severity) {
		return expressQueue
	}
	return river.QueueDefault
}

// enqueue makes sure that the incident has a job that is not finished. If the
// incident has been raised, a job that waits among the others is moved. It returns
// the queue that is to be woken after tx, if any.
func (in *Inbox) enqueue(ctx context.Context, tx *sql.Tx, inc *incident, raised bool) ([]string, error) {
	queue := in.workQueue(inc.severity)
	result, err := in.client.InsertTx(ctx, tx, incidentArgs{Incident: inc.id}, &river.InsertOpts{
		Queue: queue, MaxAttempts: maxAttempts, UniqueOpts: once(),
	})
	if err != nil {
		return nil, fmt.Errorf("enqueue incident: %w", err)
	}
	if raised {
		if _, err := tx.ExecContext(ctx, `UPDATE river_job SET priority = $1 WHERE kind = 'delivery' AND state <> 'running' AND `+unfinished+`
			AND args ->> 'incident' = $2`, priorityFirst, inc.id); err != nil {
			return nil, fmt.Errorf("move deliveries of %s up: %w", inc.id, err)
		}
	}
	switch {
	case !result.UniqueSkippedAsDuplicate:
		return []string{queue}, nil
	case !raised:
		return nil, nil
	}
	if _, err := tx.ExecContext(ctx, `UPDATE river_job SET queue = $1 WHERE id = $2 AND state <> 'running'`, queue, result.Job.ID); err != nil {
		return nil, fmt.Errorf("move job to queue %s: %w", queue, err)
	}
	return []string{queue}, nil
}

// once keeps a second job with the same arguments out until the first is done.
func once() river.UniqueOpts {
	return river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
		rivertype.JobStateRetryable, rivertype.JobStateScheduled,
	}}
}
