package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/regpath/diagnose/probes"
)

// PostgresOptions say how to reach one shard.
type PostgresOptions struct {
	// Name is the shard's name as the service calls it: "shard0".
	Name string
	// DSN is a URL or a list of key=value. It should lead to the server itself:
	// a pooler in between refuses the session's settings.
	DSN Secret
	// Timeout bounds connecting and every query; zero means 1 s.
	Timeout time.Duration
	// Console says that the DSN leads to the admin console of a PgBouncer (its
	// database "pgbouncer"), which knows neither settings nor SELECT.
	Console bool
}

// Postgres asks one shard, over one connection of its own.
type Postgres struct {
	name    string
	timeout time.Duration
	console bool
	config  *pgx.ConnConfig
	circuit circuit

	mu   sync.Mutex
	gate *gate
	conn *pgx.Conn
}

// NewPostgres returns a source for one shard. It does no I/O.
func NewPostgres(o PostgresOptions) (*Postgres, error) {
	config, err := parseDSN(string(o.DSN))
	if err != nil {
		return nil, fmt.Errorf("postgres %s: the connection string: %w", o.Name, err)
	}
	p := &Postgres{name: o.Name, timeout: o.Timeout, console: o.Console, config: config}
	if p.timeout <= 0 {
		p.timeout = backendTimeout
	}
	config.ConnectTimeout = p.timeout
	config.RuntimeParams["application_name"] = ClientName
	if o.Console {
		return p, nil
	}
	// What the agent may do is settled when the session begins: it cannot write
	// (see connect), wait for a lock, or keep a transaction or a query open.
	config.RuntimeParams["statement_timeout"] = "2000"
	config.RuntimeParams["lock_timeout"] = "200"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "5000"
	return p, nil
}

// Name returns the shard's name.
func (p *Postgres) Name() string { return p.name }

// Address returns the host and port, for a human.
func (p *Postgres) Address() string {
	if strings.HasPrefix(p.config.Host, "/") {
		return p.config.Host
	}
	return net.JoinHostPort(p.config.Host, strconv.Itoa(int(p.config.Port)))
}

// Open opens the connection, so that it stands before it is needed: a server
// out of slots keeps none for an ordinary role.
func (p *Postgres) Open(ctx context.Context) error {
	_, err := p.Ping(ctx, new(probes.Cost))
	return err
}

// Close closes the connection. The source may be used again.
func (p *Postgres) Close(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		ctx, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		_ = p.conn.Close(ctx)
	}
	p.drop()
}

// Ping returns how long the shard takes to answer SELECT 1, or the console
// SHOW VERSION.
func (p *Postgres) Ping(ctx context.Context, cost *probes.Cost) (time.Duration, error) {
	statement := "SELECT 1"
	if p.console {
		statement = "SHOW VERSION"
	}
	_, took, err := p.ask(ctx, cost, statement)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", strings.ToLower(statement), err)
	}
	return took, nil
}

// Query runs one statement without parameters and returns its rows. what names
// it in errors, in a word. It goes by the simple protocol, which every pooler
// lets through. An error that the server answers with leaves the session as it is.
func (p *Postgres) Query(ctx context.Context, cost *probes.Cost, what, statement string) ([]Record, error) {
	results, _, err := p.ask(ctx, cost, statement)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return records(results), nil
}

// ask runs a statement on the session, which it opens where there is none. A
// session that turns out to be closed is replaced once.
func (p *Postgres) ask(ctx context.Context, cost *probes.Cost, statement string) ([]*pgconn.Result, time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.circuit.check(); err != nil {
		return nil, 0, err
	}
	kept := p.conn != nil
	results, took, err := p.try(ctx, cost, statement)
	if kept && errors.Is(err, ErrRefused) {
		results, took, err = p.try(ctx, cost, statement)
	}
	p.circuit.note(err)
	return results, took, err
}

func (p *Postgres) try(run context.Context, cost *probes.Cost, statement string) ([]*pgconn.Result, time.Duration, error) {
	ctx, cancel := context.WithTimeout(run, p.timeout)
	defer cancel()
	if p.conn == nil {
		if err := p.connect(ctx, run, cost); err != nil {
			err = p.failed(run, err)
			p.drop()
			return nil, 0, err
		}
	}
	results, took, err := p.exec(ctx, run, cost, statement)
	if err == nil {
		return results, took, nil
	}
	told, ok := errors.AsType[*pgconn.PgError](err)
	err = p.failed(run, err)
	if !ok || told.Severity != "ERROR" {
		p.drop()
	}
	return nil, 0, err
}

// exec runs a statement on the session that stands.
func (p *Postgres) exec(ctx, run context.Context, cost *probes.Cost, statement string) ([]*pgconn.Result, time.Duration, error) {
	before := p.gate.bytes()
	stop := p.gate.begin(run)
	start := time.Now()
	cost.Queries++
	results, err := p.conn.PgConn().Exec(ctx, statement).ReadAll()
	took := time.Since(start)
	stop()
	cost.Bytes += p.gate.bytes() - before
	return results, took, err
}

// connect opens the session and makes it read-only. That is a statement and no
// setting of the start, so that pg_settings.reset_val still tells what holds for
// everybody else.
func (p *Postgres) connect(ctx, run context.Context, cost *probes.Cost) error {
	p.gate = &gate{open: true, timeout: p.timeout}
	config := p.config.Copy()
	config.DialFunc = p.gate.dial
	conn, err := pgx.ConnectConfig(ctx, config)
	p.gate.shut()
	cost.Bytes += p.gate.bytes()
	p.conn = conn
	if err != nil || p.console {
		return err
	}
	_, _, err = p.exec(ctx, run, cost, "SET default_transaction_read_only = on")
	return err
}

// drop closes the socket at once. The driver's own way would dial the server
// again to cancel the query, and keep the old connection for up to 15 s.
func (p *Postgres) drop() {
	if p.gate != nil {
		p.gate.close()
	}
	p.gate, p.conn = nil, nil
}

func (p *Postgres) failed(run context.Context, err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		text := "SQLSTATE " + answer.Code
		switch {
		// Class 28: invalid authorization; 3D000: no such database.
		case strings.HasPrefix(answer.Code, "28"), answer.Code == "3D000":
			return fail(ErrDenied, text+": the server wants other credentials than the agent's")
		case answer.Code == "42501":
			return fail(ErrNotOffered, text+": the agent's role lacks a right")
		case answer.Code == "53300":
			return fail(ErrNoSlot, text+": the server has no slot left for a session")
		// Class 53: out of connections, memory or disk; class 57P: shutting down or starting up.
		case strings.HasPrefix(answer.Code, "53"), strings.HasPrefix(answer.Code, "57P"):
			return fail(ErrRefused, text+": the server takes no sessions")
		}
		return fail(ErrAnswered, text)
	}
	if f := classify(run, err, p.gate != nil && p.gate.connected(), p.timeout); f != nil {
		return f
	}
	// The driver's texts name users and hosts; its type is enough here.
	return fail(ErrRefused, "the connection is of no use")
}

// gate lets a driver dial only while it is open, and keeps hold of the socket.
type gate struct {
	timeout time.Duration

	mu   sync.Mutex
	open bool
	conn *countedConn
}

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if !open {
		return nil, errors.New("the agent does not open a second connection")
	}
	conn, err := dial(ctx, network, addr, g.timeout)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn = conn
	return conn, nil
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
}

func (g *gate) close() {
	if c := g.held(); c != nil {
		_ = c.Close()
	}
}

func (g *gate) begin(ctx context.Context) (stop func() bool) { return g.held().begin(ctx) }

func (g *gate) connected() bool { return g.held() != nil }

func (g *gate) bytes() int64 {
	if c := g.held(); c != nil {
		return c.bytes.Load()
	}
	return 0
}

func (g *gate) held() *countedConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conn
}
