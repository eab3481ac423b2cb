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

	"github.com/riverqueue/river/riverdriver/riversqlite"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// openSQLite opens or creates a SQLite file: one writing connection, which River
// shares, some reading ones, and a lock that keeps a second process out.
func openSQLite(ctx context.Context, s *store, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find store: %w", err)
	}
	s.name = path
	// Alerts may hold what is nobody else's business. SQLite gives its side
	// files the permissions of the file itself.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("open store: %s is a folder, a device or the like: want the path of a file", path)
	} else if err == nil && info.Size() > 0 && checkHeader(path) != nil {
		return fmt.Errorf("open store: %s is damaged or not the store of an agent: is the path right? If it is, move the file away and start again", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open store: %w (the folder must exist and be writable)", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	if err := s.lockSQLite(ctx, path); err != nil {
		return err
	}
	// As River's SQLite driver advises: one writer, so nobody waits for a lock
	// inside the process. synchronous(FULL) makes a commit outlast a power cut.
	s.write, err = openStatements(sqliteDSN(path, "_txlock=immediate",
		"_pragma=busy_timeout(2000)", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)", "_pragma=foreign_keys(ON)"))
	if err != nil {
		return fmt.Errorf("open store %s: %w", path, err)
	}
	s.write.SetMaxOpenConns(1)
	s.begin = func(ctx context.Context) (*sql.Tx, error) { return s.write.BeginTx(ctx, nil) }
	s.alone = func(ctx context.Context, f func(context.Context) error) error { return f(ctx) } // by the lock
	s.driver = riversqlite.New(s.write)
	s.touch = fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)
	s.committer = newCommitter(s.begin, true)
	if err := s.checkSQLite(ctx); err != nil {
		return err
	}
	s.read, err = readSQLite(path)
	return err
}

// readSQLite opens the file for reading only; it may be in use by a process.
func readSQLite(path string) (*sql.DB, error) {
	db, err := openStatements(sqliteDSN(path, "mode=ro", "_pragma=busy_timeout(2000)", "_pragma=query_only(ON)", "_pragma=cache_size(-500)"))
	if err != nil {
		return nil, fmt.Errorf("open store %s for reading: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	return db, nil
}

// sqliteDSN builds a data source name; any path is a legal one.
func sqliteDSN(path string, params ...string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(params, "&")
}

// lockSQLite holds an exclusive SQLite lock on a side file for as long as the
// store is open. Such a lock ends with its process, however that ends.
func (s *store) lockSQLite(ctx context.Context, path string) error {
	lock, err := sql.Open("sqlite", sqliteDSN(path+".lock", "_pragma=busy_timeout(0)"))
	if err != nil {
		return fmt.Errorf("lock store %s: %w", path, err)
	}
	held, err := lock.Conn(ctx)
	if err == nil {
		s.closers = append(s.closers, held.Close)
		_, err = held.ExecContext(ctx, "BEGIN EXCLUSIVE")
	}
	s.closers = append(s.closers, lock.Close)
	if err != nil {
		if sqliteCode(err) == sqlite3.SQLITE_BUSY {
			return fmt.Errorf("store %s is in use by another process: stop that one, or give this one a store of its own", path)
		}
		return fmt.Errorf("lock store %s: %w (remove %s.lock if it is damaged)", path, err, path)
	}
	return nil
}

// checkSQLite refuses a damaged file and one from a newer version, and makes the
// tables in a new one.
func (s *store) checkSQLite(ctx context.Context) error {
	var verdict string
	err := s.write.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	if code := sqliteCode(err); code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT {
		verdict, err = err.Error(), nil
	}
	if err != nil {
		return fmt.Errorf("open store %s: %w", s.name, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("store %[1]s is damaged: %[2]s: move %[1]s and the files beside it (-wal, -shm) away and start again; "+
			"Alertmanager repeats what still fires", s.name, verdict)
	}
	var version int
	if err := s.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("open store %s: %w", s.name, err)
	}
	return s.upgrade(ctx, version, sqliteSteps())
}

// sqliteCode returns SQLite's primary result code, 0 if err is none of its.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}
