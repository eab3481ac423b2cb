package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
)

// owningExecutor is River's executor for a store that agents share, except that an
// agent settles no job that was taken from it: one that was not heard of for too long,
// and comes back with what it failed at, would free the job under the agent that has
// it now, for a third one to do at the same time.
type owningExecutor struct {
	riverdriver.Executor
	driver riverdriver.Driver[*sql.Tx]
	store  *store
	agent  string
}

// JobSetStateIfRunningMany implements riverdriver.Executor. Jobs that it leaves alone are
// not among those that it returns, like those that there are no more.
func (e owningExecutor) JobSetStateIfRunningMany(ctx context.Context, params *riverdriver.JobSetStateIfRunningManyParams) (set []*rivertype.JobRow, err error) {
	err = e.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
		own, err := e.own(ctx, tx, params)
		if err != nil || len(own.ID) == 0 {
			return err
		}
		set, err = e.driver.UnwrapExecutor(tx).JobSetStateIfRunningMany(ctx, own)
		return err
	})
	return set, err
}

// own leaves of params the jobs that are this agent's, and holds them until the end of tx.
func (e owningExecutor) own(ctx context.Context, tx *sql.Tx, params *riverdriver.JobSetStateIfRunningManyParams) (*riverdriver.JobSetStateIfRunningManyParams, error) {
	own := &riverdriver.JobSetStateIfRunningManyParams{Now: params.Now, Schema: params.Schema}
	for i, id := range params.ID {
		var ours bool
		err := tx.QueryRowContext(ctx, `SELECT attempted_by[array_upper(attempted_by, 1)] = $1 FROM river_job WHERE id = $2 FOR UPDATE`, e.agent, id).Scan(&ours)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("look whose job %d is: %w", id, err)
		}
		if !ours {
			continue
		}
		own.ID = append(own.ID, id)
		own.Attempt = append(own.Attempt, params.Attempt[i])
		own.ErrData = append(own.ErrData, params.ErrData[i])
		own.FinalizedAt = append(own.FinalizedAt, params.FinalizedAt[i])
		own.MetadataDoMerge = append(own.MetadataDoMerge, params.MetadataDoMerge[i])
		own.MetadataUpdates = append(own.MetadataUpdates, params.MetadataUpdates[i])
		own.ScheduledAt = append(own.ScheduledAt, params.ScheduledAt[i])
		own.State = append(own.State, params.State[i])
	}
	return own, nil
}
