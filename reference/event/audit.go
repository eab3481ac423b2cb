package event

import (
	"context"
	"database/sql"
	"fmt"
)

// Audit keeps one row of every event for good, in a table that is only ever added to.
type Audit struct{ db *sql.DB }

// NewAudit makes the table where it is not there yet, in PostgreSQL or SQLite. The caller closes the database.
func NewAudit(ctx context.Context, db *sql.DB) (*Audit, error) {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS audit (
		shard TEXT NOT NULL, id BIGINT NOT NULL, type TEXT NOT NULL, username TEXT NOT NULL,
		user_id BIGINT NOT NULL, at_micros BIGINT NOT NULL, PRIMARY KEY (shard, id))`)
	if err != nil {
		return nil, fmt.Errorf("create audit table: %w", err)
	}
	return &Audit{db: db}, nil
}

// Handle is a [Handler]. The table's key sees to it that a repeated event adds nothing.
func (a *Audit) Handle(ctx context.Context, e Event) error {
	_, err := a.db.ExecContext(ctx, `INSERT INTO audit (shard, id, type, username, user_id, at_micros)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, e.Shard, e.ID, e.Type, e.Name, e.UserID, e.At.UnixMicro())
	if err != nil {
		return Unavailable(fmt.Errorf("audit: %w", err))
	}
	return nil
}
