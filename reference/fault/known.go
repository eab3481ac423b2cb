package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
)

// Patient is the checker that faults are given to.
type Patient struct {
	Service *reference.Service
	// Filter is what the filter is built for when it is well.
	Filter bloom.Params
	// Changed records a change of configuration that somebody made. kind is
	// "config" or "flag".
	Changed func(kind, what, from, to string)
	// Delay opens a way to the target on which everything takes longer, and
	// returns its address; closing ends it.
	Delay func(target string, each time.Duration) (address string, closing func(), err error)
	// Bypass frees names in the databases, behind the service, and returns how
	// to give them back.
	Bypass func(ctx context.Context) (restore func(context.Context) error, err error)
	// Expire lets every entry in Redis expire at this moment.
	Expire func(ctx context.Context) error
	// SetClock sets the clock of the user ids wrong by so much.
	SetClock func(by time.Duration)
	// HoldShard takes a connection out of the pool of one shard; nil where that cannot be.
	HoldShard func(ctx context.Context) (giveBack func(), err error)
	// Twin runs a second instance with the machine number of this one, which
	// registers whenever this one does; stop ends it.
	Twin func(ctx context.Context) (stop func(), err error)
	// Crowd lets many try to register the name, over HTTP; stop ends it.
	Crowd func(ctx context.Context, name string, perSecond float64) (stop func(), err error)
	// Redis and Shard are servers that may be stopped; nil where the checker
	// does not own them.
	Redis, Shard *Server
}

// Server is a server that can be stopped and started again.
type Server struct {
	Stop  func(ctx context.Context) error
	Start func(ctx context.Context) error
}

const (
	// farDelay is the delay each way of a Redis in another zone.
	farDelay = 2500 * time.Microsecond
	// farPool is the pool that somebody thought enough for it.
	farPool = 2
	// leakWithin bounds how long a leak takes to have all connections of a busy pool.
	leakWithin = time.Minute
	// deadURL is where nobody listens: the port of the discard service.
	deadURL = "http://127.0.0.1:9/v1/profiles"
)

// Known returns the faults that the patient can be given.
func Known(p Patient) []Fault {
	faults := []Fault{
		undersized(p),
		writeOnRead(p),
		redisPool(p),
		redisPoolTaken(p, "redis-pool-leak", "connections are taken from the Redis pool and never given back", p.Service.Redis.Hold),
		redisPoolTaken(p, "redis-pool-blocked", "blocking commands wait for news over all connections of the Redis pool", p.Service.Redis.Block),
		errorBurst(p),
		cacheStampede(p),
		cachePenetration(p),
		trustFree(p),
		staleMarkers(p),
		staleNegatives(p),
		clockRollback(p),
		syncFollowUps(p),
		stateBypass(p),
		clippedNames(p),
		workerCollision(p),
		hotName(p),
	}
	if p.HoldShard != nil {
		faults = append(faults, shardPoolLeak(p))
	}
	faults = append(faults, writers(p)...)
	if p.Redis != nil {
		faults = append(faults, Fault{
			Name: "redis-down", Help: "Redis is stopped: connections are refused",
			On: p.Redis.Stop, Off: p.Redis.Start,
		})
	}
	if p.Shard != nil {
		faults = append(faults, Fault{
			Name: "shard-down", Help: "one shard is stopped: nothing that it owns can be looked up or registered",
			On: p.Shard.Stop, Off: p.Shard.Start,
		})
	}
	return faults
}

// undersized needs no recorded change: a filter becomes too small by the names
// that come, not by what somebody does.
func undersized(p Patient) Fault {
	return Fault{
		Name: "bloom-undersized", Help: "the filter is rebuilt for a fifth of the names there are",
		On: func(ctx context.Context) error {
			s := p.Service.Filter.Stats()
			names := s.Added[bloom.Build] + s.Added[bloom.Register]
			return p.Service.ForceFilter(ctx, bloom.Params{Capacity: max(1, names/5), Rate: p.Filter.Rate})
		},
		Off: func(ctx context.Context) error { return p.Service.RebuildFilter(ctx, p.Filter) },
	}
}

func writeOnRead(p Patient) Fault {
	set := func(on bool) {
		before := p.Service.SetWriteOnRead(on)
		p.Changed("flag", "filter_write_on_read", strconv.FormatBool(before), strconv.FormatBool(on))
	}
	return Fault{
		Name: "write-on-read", Help: "a flag makes checks add every name asked for to the filter",
		On: func(context.Context) error {
			set(true)
			return nil
		},
		Off: func(ctx context.Context) error {
			set(false)
			return p.Service.ForceFilter(ctx, p.Service.Filter.Params()) // it may be undersized too
		},
	}
}

func redisPool(p Patient) Fault {
	redis := p.Service.Redis
	before := redis.Options()
	var closing func()
	move := func(address string, pool int) error {
		was := redis.Options()
		now := was
		now.Address, now.PoolSize = address, pool
		if err := redis.Replace(now); err != nil {
			return err
		}
		p.Changed("config", "redis_address", was.Address, now.Address)
		p.Changed("config", "redis_pool_size", strconv.Itoa(was.PoolSize), strconv.Itoa(now.PoolSize))
		return nil
	}
	return Fault{
		Name: "redis-pool", Help: fmt.Sprintf("Redis has moved to another zone, %s away, and the pool has %d connections", 2*farDelay, farPool),
		On: func(context.Context) (err error) {
			before = redis.Options()
			var address string
			if address, closing, err = p.Delay(before.Address, farDelay); err != nil {
				return err
			}
			if err := move(address, farPool); err != nil {
				closing()
				return err
			}
			return nil
		},
		Off: func(context.Context) error {
			if err := move(before.Address, before.PoolSize); err != nil {
				return err
			}
			closing()
			return nil
		},
	}
}

// redisPoolTaken takes every connection, under load, and keeps it.
func redisPoolTaken(p Patient, name, help string, take func(context.Context) (release func() error, err error)) Fault {
	var held []func() error
	release := func() error {
		var errs []error
		for _, giveBack := range held {
			errs = append(errs, giveBack())
		}
		held = nil
		return errors.Join(errs...)
	}
	return Fault{
		Name: name, Help: help,
		On: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, leakWithin)
			defer cancel()
			for len(held) < p.Service.Redis.Options().PoolSize {
				giveBack, err := take(ctx)
				switch {
				case err == nil:
					held = append(held, giveBack)
				case (errors.Is(err, cache.ErrNoConnection) || errors.Is(err, os.ErrDeadlineExceeded)) && ctx.Err() == nil:
					// The others were faster, or the machine is busy.
				default:
					return errors.Join(err, release())
				}
			}
			return nil
		},
		Off: func(context.Context) error { return release() },
	}
}

func errorBurst(p Patient) Fault {
	before := ""
	return Fault{
		Name: "error-burst", Help: "the follow-up URL is changed to a port where nobody listens",
		On: func(context.Context) (err error) {
			if before, err = p.Service.FollowUps.SetURL(deadURL); err != nil {
				return err
			}
			p.Changed("config", "followup_url", before, deadURL)
			return nil
		},
		Off: func(context.Context) error {
			from, err := p.Service.FollowUps.SetURL(before)
			if err != nil {
				return err
			}
			p.Changed("config", "followup_url", from, before)
			return nil
		},
	}
}
