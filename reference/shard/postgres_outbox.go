package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/reference/name"
)

// Outbox implements [Store].
func (p *Postgres) Outbox(ctx context.Context, limit int) ([]Event, error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.release(conn)
	rows, err := conn.Query(ctx, "SELECT id, state, username, user_id, at FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT $1", max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Event, error) {
		var e Event
		var to name.State
		err := row.Scan(&e.ID, &to, &e.Name, &e.UserID, &e.At)
		e.Type, e.At = eventType(to), e.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return events, nil
}

// MarkPublished implements [Store].
func (p *Postgres) MarkPublished(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := p.exec(ctx, "UPDATE outbox SET published_at = clock_timestamp() WHERE id = ANY($1) AND published_at IS NULL", ids)
	if err != nil {
		return fmt.Errorf("mark %d events: %w", len(ids), err)
	}
	return nil
}

// Republish implements [Store].
func (p *Postgres) Republish(ctx context.Context, since time.Time) (int64, error) {
	n, err := p.exec(ctx, "UPDATE outbox SET published_at = NULL WHERE published_at IS NOT NULL AND published_at >= $1", since)
	if err != nil {
		return 0, fmt.Errorf("republish: %w", err)
	}
	return n, nil
}

// Purge implements [Store].
func (p *Postgres) Purge(ctx context.Context, before time.Time, limit int) (int64, error) {
	n, err := p.exec(ctx, `DELETE FROM outbox WHERE id IN
		(SELECT id FROM outbox WHERE published_at IS NOT NULL AND published_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, max(limit, 0))
	if err != nil {
		return 0, fmt.Errorf("purge the outbox: %w", err)
	}
	return n, nil
}

// exec runs a statement and answers how many rows it changed.
func (p *Postgres) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer p.release(conn)
	tag, err := conn.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}
