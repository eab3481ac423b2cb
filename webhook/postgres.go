package webhook

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
)

const (
	// postgresName stands for the store in what people read: its URL is a secret.
	postgresName = "on Postgres"
	// postgresSchema holds the tables, unless the URL has a search_path.
	postgresSchema = "diagnose"
	// postgresConns is how many connections an agent takes at most.
	postgresConns = 10
)

// The advisory locks, each with a hash of the schema as its second key.
const (
	// writerLock is held by every transaction of a committer. One writer at a time
	// over all agents, as with SQLite: so nobody opens an incident twice, counts
	// news while it is counted elsewhere, or waits in a circle. Whoever waits
	// gathers changes for the next transaction meanwhile.
	writerLock = 0x64696167
	// tablesLock is held by whoever makes or changes tables.
	tablesLock = writerLock + 1
)

// openPostgres opens a schema of a Postgres database, and makes it where it is
// not there.
func openPostgres(ctx context.Context, s *store, url string) error {
	s.name, s.shared = postgresName, true
	config, schema, err := postgresConfig(url)
	if err != nil {
		return err
	}
	// A process that hangs in a transaction must not keep all others waiting.
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "10000"
	s.write = openPgx(config)
	s.read = s.write
	s.begin = func(ctx context.Context) (*sql.Tx, error) {
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1, hashtext($2))`, writerLock, schema); err != nil {
			return nil, errors.Join(fmt.Errorf("wait for other writers: %w", err), rollback(tx))
		}
		return tx, nil
	}
	s.alone = func(ctx context.Context, f func(context.Context) error) error {
		return s.aloneOnPostgres(ctx, schema, f)
	}
	s.driver = riverdatabasesql.New(s.write)
	s.touch = fmt.Sprintf("UPDATE store_version SET version = %d", schemaVersion)
	s.committer = newCommitter(s.begin, false)
	if err := s.alone(ctx, func(ctx context.Context) error { return s.checkPostgres(ctx, schema) }); err != nil {
		return fmt.Errorf("open store %s: %w", s.name, err)
	}
	return nil
}

// readPostgres opens the schema for reading only.
func readPostgres(url string) (*sql.DB, error) {
	config, _, err := postgresConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["default_transaction_read_only"] = "on"
	return openPgx(config), nil
}

// schemaName is what a schema may be called: it need not be quoted.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// postgresConfig reads the URL. Its errors quote nothing of it. They are those of the
// DSNs of shards in intake's own words, as it knows nothing of how probes reach theirs.
func postgresConfig(url string) (config *pgx.ConnConfig, schema string, err error) {
	config, err = pgx.ParseConfig(url)
	if err != nil && strings.Contains(err.Error(), "invalid port") { // told by the driver's text only
		return nil, "", errors.New("the port in the store's URL is not a number from 1 to 65535 (in a password @ : / are written %40 %3A %2F)")
	}
	if err != nil {
		return nil, "", errors.New("the store's URL cannot be read: want postgres://user:password@host:port/database")
	}
	schema = config.RuntimeParams["search_path"]
	if schema == "" {
		schema = postgresSchema
		config.RuntimeParams["search_path"] = schema
	}
	if !schemaName.MatchString(schema) {
		return nil, "", errors.New("the store's search_path must name one schema, of lower-case letters, digits and underscores")
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "diagnose"
	}
	return config, schema, nil
}

// openPgx opens the pool. It does no I/O.
func openPgx(config *pgx.ConnConfig) *sql.DB {
	db := sql.OpenDB(quietConnector{stdlib.GetConnector(*config)})
	db.SetMaxOpenConns(postgresConns)
	db.SetMaxIdleConns(postgresConns)
	return db
}

// quietConnector keeps who connects to what out of the errors.
type quietConnector struct{ driver.Connector }

// Connect implements driver.Connector.
func (q quietConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := q.Connector.Connect(ctx)
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return nil, fmt.Errorf("connect to Postgres: %w", e.Unwrap())
	}
	return c, err
}

// aloneOnPostgres runs f under tablesLock, which ends with its connection.
func (s *store) aloneOnPostgres(ctx context.Context, schema string, f func(context.Context) error) (err error) {
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1, hashtext($2))`, tablesLock, schema); err != nil {
		return fmt.Errorf("wait for other agents to make their tables: %w", err)
	}
	err = f(ctx)
	unlock, cancel := outlasting(ctx)
	defer cancel()
	_, unlockErr := conn.ExecContext(unlock, `SELECT pg_advisory_unlock($1, hashtext($2))`, tablesLock, schema)
	return errors.Join(err, unlockErr)
}

// checkPostgres refuses a schema from a newer version, and makes one that is not
// there.
func (s *store) checkPostgres(ctx context.Context, schema string) error {
	var there bool
	if err := s.write.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := s.write.ExecContext(ctx, `CREATE SCHEMA `+schema); err != nil {
			return fmt.Errorf("create schema %s: %w (or let its owner make it for this role)", schema, err)
		}
	}
	var made bool
	if err := s.write.QueryRowContext(ctx, `SELECT to_regclass('store_version') IS NOT NULL`).Scan(&made); err != nil {
		return err
	}
	version := 0
	if made {
		if err := s.write.QueryRowContext(ctx, `SELECT version FROM store_version`).Scan(&version); err != nil {
			return err
		}
	}
	return s.upgrade(ctx, version, postgresSteps())
}

// calledOff reports whether Postgres has taken the change back for the sake of
// another one, so that it may be made again at once.
func calledOff(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(e.Code, "40") // serialization failure, deadlock
}
