package shard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

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
	writes [SubTables]sqliteWrites
	common sqliteCommon
	// writer is held by the one call that writes. SQLite has one writer at a time anyhow; waiting here ends with the
	// context, waiting inside SQLite does not.
	writer chan struct{}
}

var _ Store = (*SQLite)(nil)

// OpenSQLite opens the file, or makes it, with the tables, columns and indexes that are missing. The file's folder must exist. Beside it SQLite
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
	bucket, bit := place(name)
	var f found
	if err := s.lookup[SubTable(name)].QueryRowContext(ctx, bit, name, bucket).Scan(f.columns()...); err != nil {
		return Row{}, false, fmt.Errorf("look up: %w", err)
	}
	return f.row(name)
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
