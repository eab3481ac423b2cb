package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/regpath/diagnose/probes"
)

// backendTimeout bounds dialling and every command.
const backendTimeout = time.Second

// ClientName is how the agent's connections call themselves.
const ClientName = "diagnose"

// handshake is the number of commands that a new connection sends before the
// first of its own: HELLO (which carries the credentials) and CLIENT SETNAME.
const handshake = 2

// RedisOptions say how to reach a Redis server.
type RedisOptions struct {
	// Addr is host:port.
	Addr string
	// Username and Password are optional.
	Username string
	Password Secret
	// TLS is optional.
	TLS *tls.Config
	// Timeout bounds dialling and every command; zero means 1 s.
	Timeout time.Duration
}

// Redis asks one Redis server, over one connection of its own.
type Redis struct {
	opt     RedisOptions
	circuit circuit

	mu     sync.Mutex
	raw    *countedConn
	client *redis.Client
	conn   *redis.Conn
}

// NewRedis returns a source for the server at o.Addr. It does no I/O.
func NewRedis(o RedisOptions) (*Redis, error) {
	if _, _, err := net.SplitHostPort(o.Addr); err != nil || strings.Contains(o.Addr, "@") {
		return nil, errors.New("the Redis address is not host:port (a password goes elsewhere)")
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

// Ping returns how long the server takes to answer PING.
func (r *Redis) Ping(ctx context.Context, cost *probes.Cost) (time.Duration, error) {
	var took time.Duration
	_, err := r.do(ctx, cost, func(took2 time.Duration) { took = took2 }, "ping")
	return took, err
}

// Info returns what the server says about itself.
func (r *Redis) Info(ctx context.Context, cost *probes.Cost) (Info, error) {
	text, err := r.do(ctx, cost, nil, "info")
	if err != nil {
		return nil, err
	}
	return ParseInfo(text), nil
}

// do sends one command. A kept connection that turns out to be broken is
// replaced once; a command that times out is not repeated.
func (r *Redis) do(ctx context.Context, cost *probes.Cost, timed func(time.Duration), command string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.circuit.check()
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	kept := r.conn != nil
	answer, err := r.send(ctx, cost, timed, command)
	if kept && errors.Is(err, ErrRefused) {
		answer, err = r.send(ctx, cost, timed, command)
	}
	r.circuit.note(err)
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return answer, nil
}

// send sends one command over the connection, which it opens if there is none
// and drops if it is of no more use.
func (r *Redis) send(run context.Context, cost *probes.Cost, timed func(time.Duration), command string) (string, error) {
	ctx, cancel := context.WithTimeout(run, r.opt.Timeout)
	defer cancel()
	if r.conn == nil {
		if err := r.connect(ctx); err != nil {
			if f := classify(run, err, false, r.opt.Timeout); f != nil {
				return "", f
			}
			return "", fail(ErrUnreachable, "no connection: "+err.Error())
		}
		cost.RedisCommands += handshake
	}
	before := r.raw.bytes.Load()
	stop := r.raw.begin(run)
	start := time.Now()
	cost.RedisCommands++
	answer, err := r.conn.Do(ctx, command).Text()
	stop()
	cost.Bytes += r.raw.bytes.Load() - before
	if err == nil {
		if timed != nil {
			timed(time.Since(start))
		}
		return answer, nil
	}
	err = r.failed(run, err)
	if !errors.Is(err, ErrAnswered) {
		r.drop()
	}
	return "", err
}

func (r *Redis) connect(ctx context.Context) error {
	raw, err := dial(ctx, "tcp", r.opt.Addr, r.opt.Timeout)
	if err != nil {
		return err
	}
	var conn net.Conn = raw
	if r.opt.TLS != nil {
		secure := tls.Client(raw, r.opt.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return fmt.Errorf("tls: %w", err)
		}
		conn = secure
	}
	var once sync.Once
	r.raw = raw
	r.client = redis.NewClient(&redis.Options{
		Addr: r.opt.Addr,
		// The pool gets the connection dialled above and no other: left alone
		// it goes on dialling a dead server every second in the background.
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			given, err := conn, errors.New("the connection is gone")
			once.Do(func() { err = nil })
			return given, err
		},
		Username: r.opt.Username, Password: string(r.opt.Password),
		ClientName: ClientName, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		PoolSize:                 1, MaxRetries: -1, DialerRetries: 1, ConnMaxIdleTime: -1,
		DialTimeout: r.opt.Timeout, ReadTimeout: r.opt.Timeout, WriteTimeout: r.opt.Timeout,
		PoolTimeout: r.opt.Timeout, ContextTimeoutEnabled: true,
	})
	r.conn = r.client.Conn()
	return nil
}

func (r *Redis) drop() {
	if r.client == nil {
		return
	}
	// The socket first: closing it cannot block, and what the client has to
	// say about it afterwards is of no interest.
	_ = r.raw.Close()
	_ = r.conn.Close()
	_ = r.client.Close()
	r.raw, r.conn, r.client = nil, nil, nil
}

func (r *Redis) failed(run context.Context, err error) error {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		prefix, _, _ := strings.Cut(answer.Error(), " ")
		switch {
		case strings.Contains(answer.Error(), "max number of clients"):
			return fail(ErrRefused, "max number of clients reached")
		case prefix == "NOAUTH" || prefix == "WRONGPASS" || prefix == "NOPERM":
			return fail(ErrDenied, prefix+": the server wants other credentials than the agent's")
		}
		return fail(ErrAnswered, "the server answers "+prefix)
	}
	if f := classify(run, err, true, r.opt.Timeout); f != nil {
		return f
	}
	return fail(ErrRefused, "the connection is of no use: "+err.Error())
}
