package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/regpath/diagnose/probes"
)

// handshake is the number of commands that a new connection sends before the
// first of its own: HELLO (which carries the credentials) and CLIENT SETNAME.
const handshake = 2

// call is one trip to the server.
type call struct {
	name     string
	commands int // how many it sends
	run      func(context.Context, *redis.Conn) error
	kept     bool // only over the connection that stands
}

// do makes a call. A kept connection that turns out to be broken is replaced
// once; a call that times out is not repeated.
func (r *Redis) do(ctx context.Context, cost *probes.Cost, c call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.circuit.check()
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	kept := r.conn != nil
	switch {
	case kept || !c.kept:
		err = r.send(ctx, cost, c)
	default:
		err = fail(ErrLost, "the connection is lost")
	}
	switch refused := kept && errors.Is(err, ErrRefused); {
	case refused && c.kept:
		err = fail(ErrLost, err.Error())
	case refused:
		err = r.send(ctx, cost, c)
	}
	r.circuit.note(err)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// send makes a call over the connection, which it opens if there is none and
// drops if it is of no more use.
func (r *Redis) send(run context.Context, cost *probes.Cost, c call) error {
	ctx, cancel := context.WithTimeout(run, patience*r.opt.Timeout)
	defer cancel()
	if r.conn == nil {
		if err := r.connect(ctx); err != nil {
			if f := classify(run, err, false, r.opt.Timeout); f != nil {
				return f
			}
			return fail(ErrUnreachable, "no connection: "+err.Error())
		}
		cost.RedisCommands += handshake
	}
	before := r.raw.bytes.Load()
	stop := r.raw.begin(run)
	cost.RedisCommands += c.commands
	err := c.run(ctx, r.conn)
	stop()
	cost.Bytes += r.raw.bytes.Load() - before
	if err == nil {
		return nil
	}
	err, usable := r.failed(run, err)
	if !usable {
		r.drop()
	}
	return err
}

func (r *Redis) connect(ctx context.Context) error {
	raw, err := dial(ctx, "tcp", r.opt.Addr, r.opt.Timeout)
	if err != nil {
		return err
	}
	heard := &overheard{countedConn: raw}
	var conn net.Conn = heard
	if r.opt.TLS != nil {
		secure := tls.Client(heard, r.opt.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			if heard.turnedAway() {
				return errFull()
			}
			return fmt.Errorf("tls: %w", err)
		}
		conn = secure
	}
	r.raw = heard
	var once sync.Once
	answer := patience * r.opt.Timeout
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
		DialTimeout: answer, ReadTimeout: answer, WriteTimeout: answer,
		PoolTimeout: answer, ContextTimeoutEnabled: true,
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

// failed returns the failure that err means, and whether the connection is
// usable all the same.
func (r *Redis) failed(run context.Context, err error) (_ error, usable bool) {
	if r.raw.turnedAway() {
		return errFull(), false
	}
	if answer, ok := errors.AsType[redis.Error](err); ok {
		prefix, _, _ := strings.Cut(answer.Error(), " ")
		switch prefix {
		case "NOAUTH", "WRONGPASS":
			return fail(ErrDenied, prefix+": the server wants other credentials than the agent's"), false
		case "NOPERM":
			return fail(ErrNotOffered, "NOPERM: the agent's user may not do that"), true
		}
		return fail(ErrAnswered, "the server answers "+prefix), true
	}
	if f := classify(run, err, true, patience*r.opt.Timeout); f != nil {
		return f, errors.Is(f, ErrAnswered)
	}
	return fail(ErrRefused, "the connection is of no use: "+err.Error()), false
}
