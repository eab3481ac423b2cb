package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long Redis keeps an answer. The jitter keeps markers that were written
// together from expiring together.
const (
	TakenTTL       = time.Hour
	TakenTTLJitter = 5 * time.Minute
	FreeTTL        = 500 * time.Millisecond
)

// Answer is what a cache knows about a name.
type Answer int

// The answers.
const (
	Miss  Answer = iota // nothing is known
	Taken               // the name has an owner
	Free                // the name had none a moment ago
)

// The keys and values in Redis. The values are no integers: Redis shares
// integer objects, which would spoil its own access statistics.
const (
	keyPrefix  = "name:"
	valueTaken = "taken"
	valueFree  = "free"
)

// Redis keeps exact "taken" markers and short-lived "free" entries. Its client
// can be replaced while it is used, without losing a counter. It is safe for
// concurrent use.
type Redis struct {
	// mu guards which client is current, and the pool counters.
	mu      sync.Mutex
	clients []*client // the last one is current, the others finish their commands
	pool    poolCounters

	commands, failed                   atomic.Uint64
	taken, free, misses, failedLookups atomic.Uint64
	busy                               atomic.Int64 // nanoseconds

	scripts scripts
	claims  claims
	owed    owed
}

// client is one go-redis client and what is going on in it.
type client struct {
	*redis.Client

	options RedisOptions
	running sync.WaitGroup
	seen    redis.PoolStats // as last added to poolCounters
}

// NewRedis returns a cache on the Redis server that o names. It does not
// connect: an unreachable server shows in the first command.
func NewRedis(o RedisOptions) (*Redis, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Redis{scripts: newScripts()}
	r.clients = []*client{r.newClient(o)}
	return r, nil
}

// Lookup asks for name. An error means that Redis could not tell, never that
// the name is free.
func (r *Redis) Lookup(ctx context.Context, name string) (Answer, error) {
	var value string
	err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) (err error) {
		value, err = c.Get(ctx, keyPrefix+name).Result()
		return err
	})
	switch {
	case errors.Is(err, redis.Nil):
		r.misses.Add(1)
		return Miss, nil
	case err != nil:
		r.failedLookups.Add(1)
		return Miss, fmt.Errorf("look up marker: %w", err)
	case value == valueTaken:
		r.taken.Add(1)
		return Taken, nil
	case value == valueFree:
		r.free.Add(1)
		return Free, nil
	}
	r.misses.Add(1) // written by somebody else: not an answer
	return Miss, nil
}

// MarkTaken sets the exact marker of name, which a registration has just found
// to be taken, and replaces a "free" entry.
func (r *Redis) MarkTaken(ctx context.Context, name string) error {
	err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error {
		return c.Set(ctx, keyPrefix+name, valueTaken, takenTTL()).Err()
	})
	if err != nil {
		return fmt.Errorf("set taken marker: %w", err)
	}
	return nil
}

func takenTTL() time.Duration { return TakenTTL + rand.N(TakenTTLJitter) }

// Hold takes a connection out of the pool and keeps it until release is
// called. It is what a forgotten Close does.
func (r *Redis) Hold(ctx context.Context) (release func() error, err error) {
	held, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	return held.Close, nil
}

// neverKey is a stream that nobody writes to.
const neverKey = "news:never"

// Block takes a connection out of the pool and waits over it, in Redis, for news
// that never come, until release is called. It is what a consumer does that
// shares the pool with everybody else.
func (r *Redis) Block(ctx context.Context) (release func() error, err error) {
	held, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// A wait that is cut off or ends in vain is begun anew, after a pause if
			// Redis is away.
			err := held.XRead(ctx, &redis.XReadArgs{Streams: []string{neverKey, "$"}, Block: newsWait}).Err()
			if err != nil && !errors.Is(err, redis.Nil) {
				pause(ctx, reconnectAfter)
			}
		}
	}()
	return func() error {
		cancel()
		<-done
		return held.Close()
	}, nil
}

// take takes a connection out of the pool.
func (r *Redis) take(ctx context.Context) (*redis.Conn, error) {
	var held *redis.Conn
	err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error {
		held = c.Conn()
		return held.Ping(ctx).Err()
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hold connection: %w", err), held.Close())
	}
	return held, nil
}

// Options returns the options in use.
func (r *Redis) Options() RedisOptions {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current().options
}

// Replace switches to a client made from o and closes the old one when its
// commands are done, which takes no longer than their timeout.
func (r *Redis) Replace(o RedisOptions) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	r.mu.Lock()
	old := r.current()
	r.clients = append(r.clients, r.newClient(o))
	r.mu.Unlock()
	return r.retire(old)
}

// Close closes the connections when the running commands are done.
func (r *Redis) Close() error {
	r.mu.Lock()
	last := r.current()
	r.mu.Unlock()
	last.running.Wait()
	return last.Close()
}

func (r *Redis) newClient(o RedisOptions) *client {
	return &client{Client: o.client(func() { r.pool.dialled.Add(1) }), options: o}
}

func (r *Redis) retire(c *client) error {
	c.running.Wait()
	r.mu.Lock()
	r.pool.add(c)
	for i := range r.clients {
		if r.clients[i] == c {
			r.clients = append(r.clients[:i], r.clients[i+1:]...)
			break
		}
	}
	r.mu.Unlock()
	return c.Close()
}

func (r *Redis) current() *client { return r.clients[len(r.clients)-1] }

// begin returns the current client with one more command running in it.
func (r *Redis) begin() *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.current()
	c.running.Add(1)
	return c
}

// do runs n commands that are sent together, within the timeout of one, and
// accounts for them.
func (r *Redis) do(ctx context.Context, n int, command func(context.Context, *redis.Client) error) error {
	c := r.begin()
	defer c.running.Done()
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	start := time.Now()
	err := command(ctx, c.Client)
	took := time.Since(start)
	r.commands.Add(uint64(n))
	r.busy.Add(int64(took))
	if err != nil && !errors.Is(err, redis.Nil) {
		r.failed.Add(1)
	}
	return r.pool.ended(err, took)
}
