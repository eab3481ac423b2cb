package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/riverqueue/river/riverdriver"
)

// store is the database: a SQLite file that one process has for itself, or a
// Postgres schema that any number of them share. What the two do differently is
// in the fields; the statements are the same for both: $1 is an argument, TRUE a
// truth value, ON CONFLICT names its columns, and so does what follows it.
type store struct {
	// name says which store it is; no secret is in it.
	name string
	// write is what River uses too.
	write, read *sql.DB
	// begin begins a transaction that overlaps no other one of this kind, in any
	// process: what it has read stays true until it ends.
	begin func(context.Context) (*sql.Tx, error)
	// alone runs f while no other process makes or changes tables.
	alone func(ctx context.Context, f func(context.Context) error) error
	// touch is a statement that writes and changes nothing.
	touch string
	// driver is River's, for write.
	driver riverdriver.Driver[*sql.Tx]
	// shared says that other processes may have the store open too.
	shared bool

	committer *committer
	// closers give back what else is held, after the databases.
	closers []func() error
}

// openStore opens or creates the store at a path or a postgres:// URL, and checks
// that it is sound and ours. The errors say what to do.
func openStore(ctx context.Context, where string) (*store, error) {
	if err := CheckStore(where); err != nil {
		return nil, err
	}
	open := openSQLite
	if IsPostgres(where) {
		open = openPostgres
	}
	s := &store{}
	if err := open(ctx, s, where); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openReader opens a store for reading only; agents may be running on it.
func openReader(where string) (*sql.DB, error) {
	if IsPostgres(where) {
		return readPostgres(where)
	}
	if err := CheckStore(where); err != nil {
		return nil, err
	}
	if err := checkHeader(where); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return readSQLite(where)
}

// checkHeader refuses the path of what is no database, before SQLite makes files
// beside it.
func checkHeader(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const header = "SQLite format 3\x00"
	start := make([]byte, len(header))
	if _, err := io.ReadFull(f, start); err != nil || string(start) != header {
		return fmt.Errorf("%s is not the store of an agent", path)
	}
	return nil
}

// IsPostgres tells the URL of a store that agents share from the path of a file.
func IsPostgres(where string) bool {
	return strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")
}

// CheckStore says what is wrong with what names a store, without opening it. It
// quotes nothing: there may be a password in it.
func CheckStore(where string) error {
	if IsPostgres(where) {
		_, _, err := postgresConfig(where)
		return err
	}
	if strings.Contains(where, "://") || strings.Contains(where, "host=") || strings.Contains(where, "password=") {
		return errors.New("the store is neither the path of a file nor postgres://user:password@host:port/database")
	}
	return nil
}

// maxTries is how often a change is made that the database calls off because of
// what others did at the same time.
const maxTries = 3

// update runs f in a transaction, which it may share with others: all of it is
// durable when update returns nil, and nothing of it otherwise. f must use the
// context that it is given, and may be called again.
func (s *store) update(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	return s.commit(ctx, false, f)
}

// updatePatiently is update for what can be put off: in a storm, answers go before it.
// What has been done must be recorded before its time is over, and is no such thing;
// where little is begun, there is little of that.
func (s *store) updatePatiently(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	return s.commit(ctx, true, f)
}

func (s *store) commit(ctx context.Context, patient bool, f func(context.Context, *sql.Tx) error) error {
	for try := 1; ; try++ {
		err := s.committer.commit(ctx, patient, f)
		if try == maxTries || !calledOff(err) {
			return err
		}
	}
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
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	for _, f := range s.closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
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
