package shard

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// HoldMobile implements [Store].
func (s *SQLite) HoldMobile(ctx context.Context, h Hold, dead int64) (holder Hold, err error) {
	if err := s.acquireWriter(ctx); err != nil {
		return Hold{}, err
	}
	defer s.releaseWriter()
	holder.Mobile = h.Mobile
	var at int64
	err = s.db.QueryRowContext(ctx, holdMobile, h.Mobile, h.UserID, h.Name, h.At.UnixMicro(), dead).Scan(&holder.UserID, &holder.Name, &at)
	if err != nil {
		return Hold{}, fmt.Errorf("hold mobile: %w", err)
	}
	holder.At = time.UnixMicro(at).UTC()
	return holder, nil
}

// DropMobile implements [Store].
func (s *SQLite) DropMobile(ctx context.Context, mobile string, userID int64) error {
	if _, err := s.exec(ctx, dropMobile, mobile, userID); err != nil {
		return fmt.Errorf("drop mobile: %w", err)
	}
	return nil
}

// Bury implements [Store].
func (s *SQLite) Bury(ctx context.Context, name string, userID int64, at time.Time) (alive bool, err error) {
	const bury = `INSERT INTO users AS u (user_id, username, created_at, deleted_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id) DO UPDATE SET username = u.username RETURNING deleted_at`
	_, err = s.write(ctx, name, func(r run) error {
		var deleted sql.NullInt64
		err := r.tx.QueryRowContext(r.ctx, bury, userID, name, at.UnixMicro(), at.UnixMicro()).Scan(&deleted)
		alive = !deleted.Valid
		return err
	})
	if err != nil {
		return false, fmt.Errorf("bury: %w", err)
	}
	return alive, nil
}
