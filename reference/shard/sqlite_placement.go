package shard

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Placement implements [Store].
func (s *SQLite) Placement() Placement { return Placement{db: sqliteSessions{s}} }

type sqliteSessions struct{ store *SQLite }

func (sqliteSessions) locks() (share, update string) { return "", "" }

func (sqliteSessions) exclude(context.Context, session) error { return nil }

func (s sqliteSessions) transact(ctx context.Context, work func(session) error) error {
	if err := s.store.acquireWriter(ctx); err != nil {
		return err
	}
	defer s.store.releaseWriter()
	tx, err := s.store.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(sqliteSession{tx}); err != nil {
		if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
			return errors.Join(err, back)
		}
		return ended(ctx, err)
	}
	return ended(ctx, tx.Commit())
}

type sqliteSession struct{ tx *sql.Tx }

func (s sqliteSession) exec(ctx context.Context, text string, args ...any) (int64, error) {
	result, err := s.tx.ExecContext(ctx, text, inMicros(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s sqliteSession) query(ctx context.Context, scan func(func(...any) error) error, text string, args ...any) error {
	rows, err := s.tx.QueryContext(ctx, text, inMicros(args)...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // a failed read is told by Err
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// inMicros turns times into what SQLite keeps.
func inMicros(args []any) []any {
	for i, arg := range args {
		if at, is := arg.(time.Time); is {
			args[i] = at.UnixMicro()
		}
	}
	return args
}
