package shard

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Sample implements [Store]. It draws rowids, which SQLite hands out in ascending order, one per row.
func (s *SQLite) Sample(ctx context.Context, n int, before time.Time) ([]Row, error) {
	if n <= 0 {
		return nil, nil
	}
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	var found []Row
	quota := perTable(n)
	for _, t := range s.tables {
		var last sql.NullInt64
		if err := s.db.QueryRowContext(ctx, "SELECT max(rowid) FROM "+t.name).Scan(&last); err != nil {
			return nil, fmt.Errorf("sample %s: %w", t.name, err)
		}
		some, err := s.rowsAt(ctx, t, randomRows(last.Int64, quota), before)
		if err != nil {
			return nil, fmt.Errorf("sample %s: %w", t.name, err)
		}
		found = append(found, pick(some, quota)...)
	}
	return pick(found, n), nil
}

// randomRows draws rowids from 1 to last, four times as many as wanted, for some may be too young; all of them where
// there are no more than that.
func randomRows(last int64, want int) []int64 {
	points := int64(4 * want)
	rows := make([]int64, 0, points)
	if last <= points {
		for id := int64(1); id <= last; id++ {
			rows = append(rows, id)
		}
		return rows
	}
	for range points {
		rows = append(rows, 1+rand.Int64N(last))
	}
	return rows
}

func (s *SQLite) rowsAt(ctx context.Context, t table, ids []int64, before time.Time) (found []Row, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	query := "SELECT username, user_id, created_at, state, recyclable_at FROM " + t.name +
		" WHERE rowid IN (SELECT value FROM json_each(?)) AND created_at < ?"
	rows, err := s.db.QueryContext(ctx, query, string(list), before.UnixMicro())
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // a failed read is told by Err
	for rows.Next() {
		var r Row
		var created, recyclable instant
		if err := rows.Scan(&r.Name, &r.UserID, &created, &r.State, &recyclable); err != nil {
			return nil, err
		}
		r.CreatedAt = time.UnixMicro(created.micros).UTC()
		if recyclable.valid {
			r.RecyclableAt = time.UnixMicro(recyclable.micros).UTC()
		}
		found = append(found, r)
	}
	return found, rows.Err()
}
