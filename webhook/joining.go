package webhook

import (
	"context"
	"database/sql"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
)

// joiningExecutor is River's executor for a store with one writer, except that what
// River does all the time shares transactions with everybody else: each of its own
// would cost a journey to the disk, while the answers wait for the writer.
type joiningExecutor struct {
	riverdriver.Executor
	driver riverdriver.Driver[*sql.Tx]
	store  *store
}

// JobGetAvailable implements riverdriver.Executor.
func (e joiningExecutor) JobGetAvailable(ctx context.Context, params *riverdriver.JobGetAvailableParams) (got *riverdriver.JobGetAvailableResult, err error) {
	err = e.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		got, err = e.driver.UnwrapExecutor(tx).JobGetAvailable(ctx, params)
		return err
	})
	return got, err
}

// JobSetStateIfRunningMany implements riverdriver.Executor.
func (e joiningExecutor) JobSetStateIfRunningMany(ctx context.Context, params *riverdriver.JobSetStateIfRunningManyParams) (set []*rivertype.JobRow, err error) {
	err = e.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		set, err = e.driver.UnwrapExecutor(tx).JobSetStateIfRunningMany(ctx, params)
		return err
	})
	return set, err
}
