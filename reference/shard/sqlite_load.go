package shard

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// loadChunk is the number of rows in one INSERT of Load: five parameters each, well below SQLite's limit of 32,766.
const loadChunk = 500

// Load implements [Store].
func (s *SQLite) Load(ctx context.Context, rows []Row) (added int64, err error) {
	var parts [SubTables][]Row
	for _, r := range rows {
		i := SubTable(r.Name)
		parts[i] = append(parts[i], r)
	}
	if err := s.acquireWriter(ctx); err != nil {
		return 0, err
	}
	defer s.releaseWriter()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("load %d rows: %w", len(rows), err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back, after an error that one is told
	if err := s.Placement().accept(ctx, sqliteSession{tx}, namesOf(rows)); err != nil {
		return 0, fmt.Errorf("load %d rows: %w", len(rows), err)
	}
	for i, part := range parts {
		for len(part) > 0 {
			chunk := part[:min(loadChunk, len(part))]
			part = part[len(chunk):]
			args := make([]any, 0, 5*len(chunk))
			for _, r := range chunk {
				state, recyclableAt := r.stored()
				args = append(args, r.Name, r.UserID, r.CreatedAt.UnixMicro(), state, micros(recyclableAt))
			}
			result, err := tx.ExecContext(ctx, "INSERT INTO "+s.tables[i].name+" (username, user_id, created_at, state, recyclable_at) VALUES "+
				strings.Repeat("(?, ?, ?, ?, ?), ", len(chunk)-1)+"(?, ?, ?, ?, ?) ON CONFLICT (username) DO NOTHING", args...)
			if err != nil {
				return 0, fmt.Errorf("load %d rows: %w", len(rows), ended(ctx, err))
			}
			n, err := result.RowsAffected()
			if err != nil {
				return 0, fmt.Errorf("load %d rows: %w", len(rows), err)
			}
			added += n
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, fmt.Errorf("load %d rows: %w", len(rows), ended(ctx, err))
	}
	return added, nil
}

// micros is a time as SQLite keeps it; nil stays nil.
func micros(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMicro()
}
