package shard

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// HoldMobile implements [Store].
func (p *Postgres) HoldMobile(ctx context.Context, h Hold, dead int64) (holder Hold, err error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return Hold{}, err
	}
	defer p.release(conn)
	holder.Mobile = h.Mobile
	err = conn.QueryRow(ctx, holdMobile, h.Mobile, h.UserID, h.Name, h.At, dead).Scan(&holder.UserID, &holder.Name, &holder.At)
	if err != nil {
		return Hold{}, fmt.Errorf("hold mobile: %w", err)
	}
	holder.At = holder.At.UTC()
	return holder, nil
}

// DropMobile implements [Store].
func (p *Postgres) DropMobile(ctx context.Context, mobile string, userID int64) error {
	if _, err := p.exec(ctx, dropMobile, mobile, userID); err != nil {
		return fmt.Errorf("drop mobile: %w", err)
	}
	return nil
}

// Bury implements [Store].
func (p *Postgres) Bury(ctx context.Context, name string, userID int64, at time.Time) (alive bool, err error) {
	const bury = `WITH HERE_, grave AS (
			INSERT INTO users AS u (user_id, username, created_at, deleted_at) SELECT $2, $1, $3, $3 FROM here
			ON CONFLICT (user_id) DO UPDATE SET username = u.username RETURNING deleted_at
		) SELECT CASE WHEN EXISTS (SELECT FROM here) THEN (SELECT count(*) FROM grave WHERE deleted_at IS NULL) ELSE REFUSED_ END`
	statement := strings.NewReplacer("HERE_", fenceHere, "REFUSED_", literal(refused)).Replace(bury)
	bucket, bit := place(name)
	n, err := p.count(ctx, strings.NewReplacer("BUCKET_", "$4", "BIT_", "$5").Replace(statement), name, userID, at, bucket, bit)
	if err != nil {
		return false, fmt.Errorf("bury: %w", err)
	}
	return n > 0, nil
}
