package shard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regpath/diagnose/reference/name"
)

// sqliteWrites are the statements that change one sub-table. Those on other tables are in sqliteCommon.
type sqliteWrites struct{ recyclable, recycle, insert, move, free *sql.Stmt }

func newSQLiteWrites(table string, statement func(string) *sql.Stmt) sqliteWrites {
	due := " WHERE username = $1 AND " + isReleased + " AND recyclable_at <= $2"
	claimed := literal(name.Claimed)
	return sqliteWrites{
		recyclable: statement("SELECT user_id FROM " + table + due),
		recycle: statement("UPDATE " + table + " SET user_id = $1, created_at = $2, state = " + claimed +
			", recyclable_at = NULL WHERE username = $3"),
		insert: statement("INSERT INTO " + table + " (username, user_id, created_at, state) VALUES ($1, $2, $3, " + claimed +
			") ON CONFLICT (username) DO NOTHING"),
		move: statement("UPDATE " + table + " SET state = $1, recyclable_at = $2 WHERE username = $3 AND user_id = $4 AND state = $5"),
		free: statement("DELETE FROM " + table + due + " AND $3 IN (0, user_id) RETURNING user_id"),
	}
}

// sqliteCommon are the statements that change what a shard has once.
type sqliteCommon struct{ user, deleteUser, event, fence, note *sql.Stmt }

func newSQLiteCommon(statement func(string) *sql.Stmt) sqliteCommon {
	return sqliteCommon{
		user:       statement("INSERT INTO users (user_id, username, mobile, created_at) VALUES ($1, $2, $3, $4)"),
		deleteUser: statement("UPDATE users SET deleted_at = $1 WHERE user_id = $2"),
		event:      statement("INSERT INTO outbox (state, username, user_id, at) VALUES ($1, $2, $3, $4)"),
		fence:      statement("SELECT writes & $1, noted & $2 FROM buckets WHERE bucket = $3"),
		note:       statement("INSERT INTO notes (username) VALUES ($1)"),
	}
}

// errUnchanged ends a transaction that changed nothing and may go.
var errUnchanged = errors.New("unchanged")

// write runs one transaction on a name, alone. It is false if work says errUnchanged, and then rolled back; it fails with
// [ErrMoved] where the shard does not hold the name, and notes those that are leaving.
func (s *SQLite) write(ctx context.Context, name string, work func(run) error) (done bool, err error) {
	if err := s.acquireWriter(ctx); err != nil {
		return false, err
	}
	defer s.releaseWriter()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	r := run{ctx, tx}
	if err = r.fence(s.common, name); err == nil {
		err = work(r)
	}
	if err != nil {
		if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
			err = errors.Join(err, back)
		}
		if errors.Is(err, errUnchanged) {
			return false, nil
		}
		return false, ended(ctx, err)
	}
	return true, ended(ctx, tx.Commit())
}

// ended is the error of a transaction by its cause: when ctx ends, database/sql rolls back by itself, and says afterwards only
// that the transaction is over.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// run runs prepared statements in a transaction.
type run struct {
	ctx context.Context
	tx  *sql.Tx
}

// fence looks whether the shard holds the name.
func (r run) fence(c sqliteCommon, name string) error {
	bucket, bit := place(name)
	var writes, noted int
	if err := r.tx.StmtContext(r.ctx, c.fence).QueryRowContext(r.ctx, bit, bit, bucket).Scan(&writes, &noted); err != nil {
		return err
	}
	switch {
	case writes == 0:
		return ErrMoved
	case noted != 0:
		return r.change(c.note, name)
	}
	return nil
}

// change runs a statement; errUnchanged means that it found no row to change.
func (r run) change(s *sql.Stmt, args ...any) error {
	result, err := r.tx.StmtContext(r.ctx, s).ExecContext(r.ctx, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return errUnchanged
	}
	return err
}

// number answers the one number a statement gives, if any.
func (r run) number(s *sql.Stmt, args ...any) (n int64, found bool, err error) {
	err = r.tx.StmtContext(r.ctx, s).QueryRowContext(r.ctx, args...).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return n, err == nil, err
}

// Claim implements [Store].
func (s *SQLite) Claim(ctx context.Context, c Claim) (won bool, err error) {
	at, w := c.At.UnixMicro(), &s.writes[SubTable(c.Name)]
	won, err = s.write(ctx, c.Name, func(r run) error {
		previous, recycled, err := r.number(w.recyclable, c.Name, at)
		if err != nil {
			return err
		}
		if recycled {
			if err := r.change(w.recycle, c.UserID, at, c.Name); err != nil {
				return err
			}
			if err := r.change(s.common.event, name.Available, c.Name, previous, at); err != nil {
				return err
			}
		} else if err := r.change(w.insert, c.Name, c.UserID, at); err != nil {
			return err
		}
		if err := r.change(s.common.user, c.UserID, c.Name, sql.NullString{String: c.Mobile, Valid: c.Mobile != ""}, at); err != nil {
			return err
		}
		return r.change(s.common.event, name.Claimed, c.Name, c.UserID, at)
	})
	// The driver says which column was not unique in its text alone.
	if err != nil && strings.Contains(err.Error(), "users.mobile") {
		return false, ErrMobileTaken
	}
	if err != nil {
		return false, fmt.Errorf("claim: %w", err)
	}
	return won, nil
}

// Move implements [Store].
func (s *SQLite) Move(ctx context.Context, m Move) (moved bool, err error) {
	m, err = m.check()
	if err != nil {
		return false, err
	}
	at, w := m.At.UnixMicro(), &s.writes[SubTable(m.Name)]
	moved, err = s.write(ctx, m.Name, func(r run) error {
		owner := m.UserID
		if m.To == name.Available {
			last, found, err := r.number(w.free, m.Name, at, m.UserID)
			if err != nil {
				return err
			}
			if !found {
				return errUnchanged
			}
			owner = last
		} else {
			_, recyclableAt := Row{State: m.To, RecyclableAt: m.RecyclableAt}.stored()
			if err := r.change(w.move, m.To, micros(recyclableAt), m.Name, m.UserID, m.From); err != nil {
				return err
			}
		}
		if m.To == name.Released {
			// Names that were loaded have no user row.
			if err := r.change(s.common.deleteUser, at, owner); err != nil && !errors.Is(err, errUnchanged) {
				return err
			}
		}
		return r.change(s.common.event, m.To, m.Name, owner, at)
	})
	if err != nil {
		return false, fmt.Errorf("move: %w", err)
	}
	return moved, nil
}

// Recyclable implements [Store].
func (s *SQLite) Recyclable(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	var names []string
	for _, t := range s.tables {
		if len(names) >= limit {
			break
		}
		err := s.each(ctx, func(name string) error {
			names = append(names, name)
			return nil
		}, t.names+" WHERE "+isReleased+" AND recyclable_at <= ? LIMIT ?", now.UnixMicro(), limit-len(names))
		if err != nil {
			return nil, fmt.Errorf("list what is recyclable in %s: %w", t.name, err)
		}
	}
	return names, nil
}
