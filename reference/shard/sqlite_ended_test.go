package shard

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
)

// TestEndedInMidWrite: whoever's time is up in the middle of a write is told that, not that there is no transaction.
func TestEndedInMidWrite(t *testing.T) {
	t.Parallel()
	s, err := OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "shard.db"), SQLiteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.write(ctx, "love", func(r run) error {
		cancel()
		for { // database/sql rolls back beside us
			if _, err := r.tx.ExecContext(context.WithoutCancel(ctx), "SELECT 1"); errors.Is(err, sql.ErrTxDone) {
				return nil
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context was canceled", err)
	}
	if _, found, err := s.Lookup(t.Context(), "love"); found || err != nil {
		t.Errorf("found %t, %v: want nothing written, and a store that goes on", found, err)
	}
}
