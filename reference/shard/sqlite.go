package shard

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// SQLiteOptions tunes a [SQLite] store. The zero value is usable.
type SQLiteOptions struct {
	// PoolSize is the most connections to the file; 0 means 8.
	PoolSize int
}

// SQLite is a shard in a file of the process's own. What only a server has, such as an address, it has not.
type SQLite struct {
	db     *sql.DB
	gate   *gate
	tables [SubTables]table
	lookup [SubTables]*sql.Stmt
	insert [SubTables]*sql.Stmt
	// writer is held by the one call that writes. SQLite has one writer at a time anyhow; waiting here ends with the
	// context, waiting inside SQLite does not.
	writer chan struct{}
}

var _ Store = (*SQLite)(nil)

// OpenSQLite opens the file, or makes it, with the tables that are missing. The file's folder must exist. Beside it SQLite
// keeps two more, path-wal and path-shm.
func OpenSQLite(ctx context.Context, path string, o SQLiteOptions) (*SQLite, error) {
	if o.PoolSize <= 0 {
		o.PoolSize = 8
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open sqlite: %w", err)
	}
	// A write-ahead log lets readers go on while one writes. Without a sync per commit a crash of the machine, not of the
	// process, may lose the last commits. The busy timeout is for other processes at the same file.
	pragmas := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}
	location := url.URL{Scheme: "file", Path: path, RawQuery: pragmas.Encode()}
	db, err := sql.Open("sqlite", location.String())
	if err != nil {
		return nil, fmt.Errorf("open sqlite: %w", err)
	}
	db.SetMaxOpenConns(o.PoolSize)
	db.SetMaxIdleConns(o.PoolSize)
	s := &SQLite{db: db, gate: newGate(o.PoolSize), tables: tables(), writer: make(chan struct{}, 1)}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open sqlite: %w", err), db.Close())
	}
	return s, nil
}

func (s *SQLite) prepare(ctx context.Context) error {
	for i, t := range s.tables {
		// created_at is in microseconds. The rowid that each row has besides is what Sample draws from.
		_, err := s.db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+t.name+
			" (username TEXT NOT NULL UNIQUE, user_id INTEGER NOT NULL, created_at INTEGER NOT NULL)")
		if err != nil {
			return fmt.Errorf("create %s: %w", t.name, err)
		}
		if s.lookup[i], err = s.db.PrepareContext(ctx, t.lookup); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		if s.insert[i], err = s.db.PrepareContext(ctx, t.insert); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
}

// acquire takes one of the pool's places; database/sql has as many connections as the gate has slots, so that it never
// makes a call wait a second time.
func (s *SQLite) acquire(ctx context.Context) error {
	if err := s.gate.enter(ctx); err != nil {
		return err
	}
	s.gate.acquires.Add(1)
	return nil
}

// acquireWriter takes a place and the right to write.
func (s *SQLite) acquireWriter(ctx context.Context) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	select {
	case s.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		s.gate.leave()
		return fmt.Errorf("wait to write: %w", ctx.Err())
	}
}

func (s *SQLite) releaseWriter() {
	<-s.writer
	s.gate.leave()
}

// Lookup implements [Store].
func (s *SQLite) Lookup(ctx context.Context, name string) (Row, bool, error) {
	if err := s.acquire(ctx); err != nil {
		return Row{}, false, err
	}
	defer s.gate.leave()
	row := Row{Name: name}
	var micros int64
	err := s.lookup[SubTable(name)].QueryRowContext(ctx, name).Scan(&row.UserID, &micros)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Row{}, false, nil
	case err != nil:
		return Row{}, false, fmt.Errorf("look up: %w", err)
	}
	row.CreatedAt = time.UnixMicro(micros).UTC()
	return row, true, nil
}

// Insert implements [Store].
func (s *SQLite) Insert(ctx context.Context, r Row) (won bool, err error) {
	if err := s.acquireWriter(ctx); err != nil {
		return false, err
	}
	defer s.releaseWriter()
	var id int64
	err = s.insert[SubTable(r.Name)].QueryRowContext(ctx, r.Name, r.UserID, r.CreatedAt.UnixMicro()).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("insert: %w", err)
	}
	return true, nil
}

// loadChunk is the number of rows in one INSERT of Load: three parameters each, well below SQLite's limit of 32,766.
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
	for i, part := range parts {
		for len(part) > 0 {
			chunk := part[:min(loadChunk, len(part))]
			part = part[len(chunk):]
			args := make([]any, 0, 3*len(chunk))
			for _, r := range chunk {
				args = append(args, r.Name, r.UserID, r.CreatedAt.UnixMicro())
			}
			result, err := tx.ExecContext(ctx, "INSERT INTO "+s.tables[i].name+" (username, user_id, created_at) VALUES "+
				strings.Repeat("(?, ?, ?), ", len(chunk)-1)+"(?, ?, ?) ON CONFLICT (username) DO NOTHING", args...)
			if err != nil {
				return 0, fmt.Errorf("load %d rows: %w", len(rows), err)
			}
			n, err := result.RowsAffected()
			if err != nil {
				return 0, fmt.Errorf("load %d rows: %w", len(rows), err)
			}
			added += n
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, fmt.Errorf("load %d rows: %w", len(rows), err)
	}
	return added, nil
}

// Sample implements [Store]. It draws rowids, which SQLite hands out in ascending order, one per row.
func (s *SQLite) Sample(ctx context.Context, n int, before time.Time) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	var found []string
	quota := perTable(n)
	for _, t := range s.tables {
		var last sql.NullInt64
		if err := s.db.QueryRowContext(ctx, "SELECT max(rowid) FROM "+t.name).Scan(&last); err != nil {
			return nil, fmt.Errorf("sample %s: %w", t.name, err)
		}
		names, err := s.rowsAt(ctx, t, randomRows(last.Int64, quota), before)
		if err != nil {
			return nil, fmt.Errorf("sample %s: %w", t.name, err)
		}
		found = append(found, pick(names, quota)...)
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

func (s *SQLite) rowsAt(ctx context.Context, t table, ids []int64, before time.Time) ([]string, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	var names []string
	query := "SELECT username FROM " + t.name + " WHERE rowid IN (SELECT value FROM json_each(?)) AND created_at < ?"
	err = s.each(ctx, func(name string) error {
		names = append(names, name)
		return nil
	}, query, string(list), before.UnixMicro())
	return names, err
}

// Names implements [Store].
func (s *SQLite) Names(ctx context.Context, yield func(name string) error) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	for _, t := range s.tables {
		if err := s.each(ctx, yield, t.names); err != nil {
			return fmt.Errorf("read %s: %w", t.name, err)
		}
	}
	return nil
}

// each calls yield with the one column of every row.
func (s *SQLite) each(ctx context.Context, yield func(string) error, query string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // a failed read is told by Err
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		if err := yield(name); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Pool implements [Store].
func (s *SQLite) Pool() PoolStats { return s.gate.stats(s.db.Stats().Idle) }

// Address implements [Store]: a file has none.
func (s *SQLite) Address() string { return "" }

// Close implements [Store].
func (s *SQLite) Close() error { return s.db.Close() }
