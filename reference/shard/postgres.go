package shard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PostgresOptions tunes a [Postgres] store. The zero value is usable.
type PostgresOptions struct {
	// PoolSize is the most connections to the shard; 0 leaves it to pool_max_conns in the DSN, and that to pgxpool.
	PoolSize int
	// ConnectTimeout bounds the opening of one connection; 0 leaves it to connect_timeout in the DSN, else two seconds.
	ConnectTimeout time.Duration
	// Replica is the DSN of a streaming replica that look-ups go to; empty for none. What was registered a moment ago may
	// not be there yet.
	Replica string
}

const (
	// pgxConnectTimeout is what pgx sets where the DSN says nothing. A connection that is being opened occupies its place
	// in the pool all that time, long after the call that wanted it has gone: a shard that stopped for a second would be
	// out of reach for two minutes.
	pgxConnectTimeout     = 2 * time.Minute
	defaultConnectTimeout = 2 * time.Second
)

// Postgres is a shard in a PostgreSQL database.
type Postgres struct {
	pool    *pgxpool.Pool
	gate    *gate
	tables  [SubTables]table
	writes  [SubTables]postgresWrites
	fresh   string // inserts the names of a shared transaction
	claims  claims
	recycle string // the query of Recyclable
	address string
	replica *replica // nil for none
}

var _ Store = (*Postgres)(nil)

// OpenPostgres connects to the database and makes the tables, columns and indexes that are missing; where all exist, the role
// needs no right to create any. Behind PgBouncer before 1.21 in transaction mode, add default_query_exec_mode=cache_describe to the DSN.
// Errors never show the DSN.
func OpenPostgres(ctx context.Context, dsn string, o PostgresOptions) (*Postgres, error) {
	pool, err := openPool(ctx, dsn, o)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	p := &Postgres{
		pool:    pool,
		gate:    newGate(int(pool.Config().MaxConns)),
		tables:  tables(),
		address: address(pool),
	}
	for i, t := range p.tables {
		p.writes[i] = newPostgresWrites(t.name)
	}
	p.fresh, p.recycle = newInsertFresh(p.tables), recyclableQuery(p.tables)
	if err := p.createTables(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	if o.Replica != "" {
		if p.replica, err = openReplica(ctx, o); err != nil {
			pool.Close()
			return nil, fmt.Errorf("open replica of postgres: %w", err)
		}
	}
	return p, nil
}

// openPool prepares the connections to a primary or a replica, and waits for none.
func openPool(ctx context.Context, dsn string, o PostgresOptions) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The reason quotes pieces of the DSN, at times of its password, so that it cannot be passed on.
		return nil, errors.New("the DSN is malformed; it reads postgres://user:password@host:port/database?option=value")
	}
	if o.PoolSize > 0 {
		config.MaxConns = int32(o.PoolSize)
	}
	switch {
	case o.ConnectTimeout > 0:
		config.ConnConfig.ConnectTimeout = o.ConnectTimeout
	case config.ConnConfig.ConnectTimeout == pgxConnectTimeout:
		config.ConnConfig.ConnectTimeout = defaultConnectTimeout
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "checker"
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// address is the host:port that a pool connects to, empty for a unix socket.
func address(pool *pgxpool.Pool) string {
	to := pool.Config().ConnConfig
	if strings.HasPrefix(to.Host, "/") {
		return ""
	}
	return net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
}

// acquire passes the gate and takes a connection. The slot is held while a connection is opened.
func (p *Postgres) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if err := p.gate.enter(ctx); err != nil {
		return nil, err
	}
	conn, err := p.pool.Acquire(ctx)
	if err == nil {
		p.gate.acquires.Add(1)
		return conn, nil
	}
	p.gate.leave()
	if ctx.Err() != nil || pgconn.Timeout(err) {
		p.gate.timeouts.Add(1)
		return nil, fmt.Errorf("%w: %w", ErrNoConnection, err)
	}
	return nil, fmt.Errorf("connect: %w", err)
}

// Hold takes a connection out of the pool for as long as the caller likes, as code does that forgets to give it back.
func (p *Postgres) Hold(ctx context.Context) (giveBack func(), err error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return func() { p.release(conn) }, nil
}

func (p *Postgres) release(conn *pgxpool.Conn) {
	conn.Release()
	p.gate.leave()
}

// Lookup implements [Store].
func (p *Postgres) Lookup(ctx context.Context, name string) (Row, bool, error) {
	conn, release, err := p.reader(ctx)
	if err != nil {
		return Row{}, false, err
	}
	defer release()
	bucket, bit := place(name)
	var f found
	if err := conn.QueryRow(ctx, p.tables[SubTable(name)].lookup, bit, name, bucket).Scan(f.columns()...); err != nil {
		return Row{}, false, fmt.Errorf("look up: %w", err)
	}
	return f.row(name)
}

// Names implements [Store].
func (p *Postgres) Names(ctx context.Context, yield func(name string) error) error {
	conn, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer p.release(conn)
	for _, t := range p.tables {
		rows, err := conn.Query(ctx, t.names)
		if err != nil {
			return fmt.Errorf("read %s: %w", t.name, err)
		}
		var name string
		if _, err := pgx.ForEachRow(rows, []any{&name}, func() error { return yield(name) }); err != nil {
			return fmt.Errorf("read %s: %w", t.name, err)
		}
	}
	return nil
}

// Pool implements [Store].
func (p *Postgres) Pool() PoolStats {
	s := p.gate.stats(int(p.pool.Stat().IdleConns()))
	if s.InUse == s.Size { // those who wait to share a transaction wait for a connection then
		s.Pending = max(s.Pending, p.claims.waiting())
	}
	return s
}

// Address implements [Store].
func (p *Postgres) Address() string { return p.address }

// Close implements [Store].
func (p *Postgres) Close() error {
	p.pool.Close()
	if p.replica != nil {
		p.replica.pool.Close()
	}
	return nil
}
