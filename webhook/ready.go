package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// readyTimeout bounds the trial of the store: what takes longer is not ready.
const readyTimeout = 2 * time.Second

// Ready returns nil if the next message could be stored now. It tries: one page
// is written, and synced, as for a message.
func (in *Inbox) Ready(ctx context.Context) error {
	in.mu.RLock()
	defer in.mu.RUnlock()
	switch {
	case in.stopped:
		return ErrStopped
	case !in.started:
		return errors.New("the work has not begun")
	case in.store.committer.behind():
		return ErrBehind
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, in.store.touch)
		return err
	}); err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	return nil
}
