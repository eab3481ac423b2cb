package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// store is the SQLite file: one writing connection, which River shares, some
// reading ones, and a lock that keeps a second process out.
type store struct {
	path      string
	write     *sql.DB
	committer *committer
	read      *sql.DB
	lock      *sql.DB
	// held is the connection that holds the lock.
	held *sql.Conn
}

// openStore opens or creates the file and checks that it is sound, ours, and
// used by nobody else. The errors say what to do.
func openStore(ctx context.Context, path string) (*store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find store: %w", err)
	}
	s := &store{path: path}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *store) open(ctx context.Context) error {
	// Alerts may hold what is nobody else's business. SQLite gives its side
	// files the permissions of the file itself.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open store: %w (the folder must exist and be writable)", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	if err := s.takeLock(ctx); err != nil {
		return err
	}
	// As River's SQLite driver advises: one writer, so nobody waits for a lock
	// inside the process. synchronous(FULL) makes a commit outlast a power cut.
	s.write, err = sql.Open("sqlite", dsn(s.path, "_txlock=immediate",
		"_pragma=busy_timeout(2000)", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)", "_pragma=foreign_keys(ON)"))
	if err != nil {
		return fmt.Errorf("open store %s: %w", s.path, err)
	}
	s.write.SetMaxOpenConns(1)
	s.committer = newCommitter(s.write)
	if err := s.check(ctx); err != nil {
		return err
	}
	s.read, err = openReader(s.path)
	return err
}

// openReader opens the file for reading only; it may be in use by a process.
func openReader(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, "mode=ro", "_pragma=busy_timeout(2000)", "_pragma=query_only(ON)"))
	if err != nil {
		return nil, fmt.Errorf("open store %s for reading: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	return db, nil
}

// dsn builds a data source name; any path is a legal one.
func dsn(path string, params ...string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(params, "&")
}

// takeLock holds an exclusive SQLite lock on a side file for as long as the
// store is open. Such a lock ends with its process, however that ends.
func (s *store) takeLock(ctx context.Context) error {
	var err error
	s.lock, err = sql.Open("sqlite", dsn(s.path+".lock", "_pragma=busy_timeout(0)"))
	if err != nil {
		return fmt.Errorf("lock store %s: %w", s.path, err)
	}
	if s.held, err = s.lock.Conn(ctx); err == nil {
		_, err = s.held.ExecContext(ctx, "BEGIN EXCLUSIVE")
	}
	if err != nil {
		if sqliteCode(err) == sqlite3.SQLITE_BUSY {
			return fmt.Errorf("store %s is in use by another process: stop that one, or give this one a store of its own", s.path)
		}
		return fmt.Errorf("lock store %s: %w (remove %s.lock if it is damaged)", s.path, err, s.path)
	}
	return nil
}

// check refuses a damaged file and one from a newer version, and makes the
// tables in a new one.
func (s *store) check(ctx context.Context) error {
	var verdict string
	err := s.write.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	if code := sqliteCode(err); code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT {
		verdict, err = err.Error(), nil
	}
	if err != nil {
		return fmt.Errorf("open store %s: %w", s.path, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("store %[1]s is damaged: %[2]s: move %[1]s and the files beside it (-wal, -shm) away and start again; "+
			"Alertmanager repeats what still fires", s.path, verdict)
	}
	var version int
	if err := s.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("open store %s: %w", s.path, err)
	}
	switch {
	case version == schemaVersion:
		return nil
	case version < 0 || version > schemaVersion:
		return fmt.Errorf("store %s has version %d, this program knows version %d: run the version that wrote it, or give this one a store of its own",
			s.path, version, schemaVersion)
	}
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, step := range schemaSteps()[version:] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return fmt.Errorf("create tables: %w", err)
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
		return err
	})
}

// update runs f in a transaction, which it may share with others: all of it is
// durable when update returns nil, and nothing of it otherwise. f must use the
// context that it is given.
func (s *store) update(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	return s.committer.commit(ctx, f)
}

// exec is update with one statement.
func (s *store) exec(ctx context.Context, query string, args ...any) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// queryer is what *sql.DB and *sql.Tx have in common for reading.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// each runs a query and calls f for every row.
func each(ctx context.Context, q queryer, f func(scan func(...any) error) error, query string, args ...any) (err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// close gives everything back, the lock last.
func (s *store) close() error {
	var errs []error
	if s.committer != nil {
		s.committer.close()
	}
	if s.held != nil {
		errs = append(errs, s.held.Close())
	}
	for _, db := range []*sql.DB{s.read, s.write, s.lock} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// sqliteCode returns SQLite's primary result code, 0 if err is none of its.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// stampLayout makes text order time order.
const stampLayout = "2006-01-02T15:04:05.000000000Z"

// toStamp spells a time for the store.
func toStamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(stampLayout)
}

// fromStamp reads what toStamp wrote; anything else is the zero time.
func fromStamp(s string) time.Time {
	t, err := time.Parse(stampLayout, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
