package event

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// CreateOnce makes the table that Once needs, where it is not there yet, in PostgreSQL or SQLite.
func CreateOnce(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS events_handled (
		handler TEXT NOT NULL, shard TEXT NOT NULL, id BIGINT NOT NULL, at BIGINT NOT NULL,
		PRIMARY KEY (handler, shard, id))`)
	if err != nil {
		return fmt.Errorf("create table of handled events: %w", err)
	}
	return nil
}

// Once gives the event to do unless it was done before. What do writes through tx and the note that it was done are one
// transaction: over any number of deliveries, deaths and consumers they happen once. Two that come at the same time wait
// for each other. Handlers whose effects lie elsewhere pass the event's shard and id on instead, as [Hook] does.
func Once(ctx context.Context, db *sql.DB, handler string, e Event, do func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back, and before, the error is told
	note, err := tx.ExecContext(ctx, `INSERT INTO events_handled (handler, shard, id, at) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, handler, e.Shard, e.ID, time.Now().Unix())
	if err != nil {
		return fmt.Errorf("note event: %w", err)
	}
	switch n, err := note.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("note event: %w", err)
	case n == 0:
		return nil
	}
	if err := do(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
