package shard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Load implements [Store]. The rows travel by COPY into a temporary table first, for COPY itself knows no ON CONFLICT.
func (p *Postgres) Load(ctx context.Context, rows []Row) (added int64, err error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer p.release(conn)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := p.Placement().accept(ctx, postgresSession{tx}, namesOf(rows)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE TEMP TABLE incoming
			(part smallint, username text COLLATE "C", user_id bigint, created_at timestamptz, state smallint, recyclable_at timestamptz)
			ON COMMIT DROP`)
		if err != nil {
			return err
		}
		columns := []string{"part", "username", "user_id", "created_at", "state", "recyclable_at"}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"incoming"}, columns, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			r := rows[i]
			state, recyclableAt := r.stored()
			return []any{int16(SubTable(r.Name)), r.Name, r.UserID, r.CreatedAt, int16(state), recyclableAt}, nil
		}))
		if err != nil {
			return err
		}
		for part, t := range p.tables {
			tag, err := tx.Exec(ctx, "INSERT INTO "+t.name+` (username, user_id, created_at, state, recyclable_at)
				SELECT username, user_id, created_at, state, recyclable_at FROM incoming WHERE part = $1 ON CONFLICT (username) DO NOTHING`, part)
			if err != nil {
				return err
			}
			added += tag.RowsAffected()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("load %d rows: %w", len(rows), err)
	}
	return added, nil
}
