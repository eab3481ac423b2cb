package shard

import (
	"context"
	"database/sql"
	"fmt"
)

// sqliteCommonTables makes what a shard has once, as in PostgreSQL. Times are in microseconds.
const sqliteCommonTables = `
	CREATE TABLE IF NOT EXISTS users (user_id INTEGER PRIMARY KEY, username TEXT NOT NULL, mobile TEXT,
		created_at INTEGER NOT NULL, deleted_at INTEGER);
	CREATE UNIQUE INDEX IF NOT EXISTS users_mobile ON users (mobile) WHERE mobile IS NOT NULL AND deleted_at IS NULL;
	CREATE TABLE IF NOT EXISTS mobiles (mobile TEXT NOT NULL UNIQUE, user_id INTEGER NOT NULL, username TEXT NOT NULL,
		held_at INTEGER NOT NULL);
	CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, state INTEGER NOT NULL, username TEXT NOT NULL,
		user_id INTEGER NOT NULL, at INTEGER NOT NULL, published_at INTEGER);
	CREATE INDEX IF NOT EXISTS outbox_unpublished ON outbox (id) WHERE published_at IS NULL;
	CREATE INDEX IF NOT EXISTS outbox_published ON outbox (published_at) WHERE published_at IS NOT NULL;`

// createTables brings the schema up to date. All is additive and may be repeated.
func (s *SQLite) createTables(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil) // immediate: several processes may open the file at the same time
	if err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back, after an error that one is told
	if _, err := tx.ExecContext(ctx, sqliteCommonTables+placementTables("INTEGER PRIMARY KEY AUTOINCREMENT")); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	for _, t := range s.tables {
		// The rowid that each row has besides is what Sample draws from.
		_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+t.name+
			" (username TEXT NOT NULL UNIQUE, user_id INTEGER NOT NULL, created_at INTEGER NOT NULL)")
		if err != nil {
			return fmt.Errorf("create %s: %w", t.name, err)
		}
		if err := addColumns(ctx, tx, t.name); err != nil {
			return fmt.Errorf("create %s: %w", t.name, err)
		}
		_, err = tx.ExecContext(ctx, "CREATE INDEX IF NOT EXISTS "+t.name+"_recyclable ON "+t.name+" (recyclable_at) WHERE "+isReleased)
		if err != nil {
			return fmt.Errorf("create %s: %w", t.name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

// addColumns adds what tables of before the state machine lack; SQLite has no ADD COLUMN IF NOT EXISTS.
func addColumns(ctx context.Context, tx *sql.Tx, table string) error {
	var present int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info(?) WHERE name = 'recyclable_at'", table).Scan(&present)
	if err != nil || present > 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, "ALTER TABLE "+table+" ADD COLUMN state INTEGER NOT NULL DEFAULT 1;"+
		"ALTER TABLE "+table+" ADD COLUMN recyclable_at INTEGER")
	return err
}

// prepare makes the schema and the statements.
func (s *SQLite) prepare(ctx context.Context) (err error) {
	if err := s.createTables(ctx); err != nil {
		return err
	}
	statement := func(text string) *sql.Stmt {
		if err != nil {
			return nil
		}
		var stmt *sql.Stmt
		stmt, err = s.db.PrepareContext(ctx, text)
		return stmt
	}
	for i, t := range s.tables {
		s.lookup[i] = statement(t.lookup)
		s.writes[i] = newSQLiteWrites(t.name, statement)
	}
	s.common = newSQLiteCommon(statement)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	return nil
}
