package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/probes"
)

// backendTimeout bounds dialling and every command.
const backendTimeout = time.Second

// ClientName is how the agent's connections call themselves.
const ClientName = "diagnose"

// RedisOptions say how to reach a Redis server.
type RedisOptions struct {
	// Addr is host:port.
	Addr string
	// Username and Password are optional.
	Username string
	Password Secret
	// TLS is optional. Its ServerName is the host of Addr when it has none.
	TLS *tls.Config
	// Timeout bounds dialling; zero means 1 s. An answer may take three times as
	// long: see patience.
	Timeout time.Duration
}

// patience is how many timeouts an answer may take. A server that stalls for a
// second or two at a time is sick in another way than one that hangs.
const patience = 3

// Redis asks one Redis server, over one connection of its own.
type Redis struct {
	opt     RedisOptions
	circuit circuit

	mu     sync.Mutex
	raw    *overheard
	client *redis.Client
	conn   *redis.Conn

	plain atomic.Bool // the server knows no INFO with a section
}

// NewRedis returns a source for the server at o.Addr. It does no I/O.
func NewRedis(o RedisOptions) (*Redis, error) {
	if err := CheckAddress(o.Addr); err != nil {
		return nil, fmt.Errorf("the Redis address: %w", err)
	}
	if o.TLS != nil && o.TLS.ServerName == "" { // or no handshake would begin
		host, _, err := net.SplitHostPort(o.Addr)
		if err != nil {
			return nil, fmt.Errorf("the Redis address: %w", err)
		}
		o.TLS = o.TLS.Clone()
		o.TLS.ServerName = host
	}
	if o.Timeout <= 0 {
		o.Timeout = backendTimeout
	}
	return &Redis{opt: o}, nil
}

// Name names the source for a human.
func (r *Redis) Name() string { return "redis " + r.opt.Addr }

// Open opens the connection, so that it stands before it is needed: a Redis at
// its maxclients keeps no slot for whoever wants to find out.
func (r *Redis) Open(ctx context.Context) error {
	_, err := r.Ping(ctx, new(probes.Cost))
	return err
}

// Close closes the connection. The source may be used again.
func (r *Redis) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

// Ping returns how long the server takes to answer PING, be it with an error
// (ErrAnswered), as one does that cannot save (MISCONF).
func (r *Redis) Ping(ctx context.Context, cost *probes.Cost) (time.Duration, error) {
	return r.timed(ctx, cost, call{name: "ping", commands: 1, run: ping})
}

// PingKept is Ping over the connection that stands. An error ErrLost says that
// it is broken, and no more than that; the next call opens another one.
func (r *Redis) PingKept(ctx context.Context, cost *probes.Cost) (time.Duration, error) {
	return r.timed(ctx, cost, call{name: "ping", commands: 1, run: ping, kept: true})
}

func ping(ctx context.Context, conn *redis.Conn) error { return conn.Ping(ctx).Err() }

func (r *Redis) timed(ctx context.Context, cost *probes.Cost, c call) (took time.Duration, err error) {
	run := c.run
	c.run = func(ctx context.Context, conn *redis.Conn) error {
		start := time.Now()
		err := run(ctx, conn)
		took = time.Since(start)
		return err
	}
	err = r.do(ctx, cost, c)
	return took, err
}

// Info returns what the server says about itself, in all sections that it has,
// and how long it took to say it.
func (r *Redis) Info(ctx context.Context, cost *probes.Cost) (info Info, took time.Duration, err error) {
	var text string
	ask := func(command ...any) (unknown bool) {
		took, err = r.timed(ctx, cost, call{name: "info", commands: 1, run: func(ctx context.Context, conn *redis.Conn) (err error) {
			text, err = conn.Do(ctx, command...).Text()
			if answer, ok := errors.AsType[redis.Error](err); ok {
				// Any other code, in capitals, says nothing of the section: BUSY, LOADING, NOPERM.
				code, _, _ := strings.Cut(answer.Error(), " ")
				unknown = code == "ERR" || code != strings.ToUpper(code)
			}
			return err
		}})
		return unknown
	}
	if !r.plain.Load() {
		r.plain.Store(ask("info", "everything"))
	}
	if r.plain.Load() {
		ask("info")
	}
	if err != nil {
		return nil, 0, err
	}
	return ParseInfo(text), took, nil
}
