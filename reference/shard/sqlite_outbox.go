package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/regpath/diagnose/reference/name"
)

// Outbox implements [Store].
func (s *SQLite) Outbox(ctx context.Context, limit int) ([]Event, error) {
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	rows, err := s.db.QueryContext(ctx,
		"SELECT id, state, username, user_id, at FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT ?", max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	defer rows.Close() //nolint:errcheck // a failed read is told by Err
	var events []Event
	for rows.Next() {
		var e Event
		var to name.State
		var at int64
		if err := rows.Scan(&e.ID, &to, &e.Name, &e.UserID, &at); err != nil {
			return nil, fmt.Errorf("read the outbox: %w", err)
		}
		e.Type, e.At = eventType(to), time.UnixMicro(at).UTC()
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return events, nil
}

// MarkPublished implements [Store].
func (s *SQLite) MarkPublished(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err == nil {
		_, err = s.exec(ctx, "UPDATE outbox SET published_at = ? WHERE id IN (SELECT value FROM json_each(?)) AND published_at IS NULL",
			time.Now().UnixMicro(), string(list))
	}
	if err != nil {
		return fmt.Errorf("mark %d events: %w", len(ids), err)
	}
	return nil
}

// Republish implements [Store].
func (s *SQLite) Republish(ctx context.Context, since time.Time) (int64, error) {
	n, err := s.exec(ctx, "UPDATE outbox SET published_at = NULL WHERE published_at IS NOT NULL AND published_at >= ?", since.UnixMicro())
	if err != nil {
		return 0, fmt.Errorf("republish: %w", err)
	}
	return n, nil
}

// Purge implements [Store].
func (s *SQLite) Purge(ctx context.Context, before time.Time, limit int) (int64, error) {
	n, err := s.exec(ctx, `DELETE FROM outbox WHERE id IN
		(SELECT id FROM outbox WHERE published_at IS NOT NULL AND published_at < ? LIMIT ?)`, before.UnixMicro(), max(limit, 0))
	if err != nil {
		return 0, fmt.Errorf("purge the outbox: %w", err)
	}
	return n, nil
}

// exec runs a statement, alone, and answers how many rows it changed.
func (s *SQLite) exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := s.acquireWriter(ctx); err != nil {
		return 0, err
	}
	defer s.releaseWriter()
	result, err := s.db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
