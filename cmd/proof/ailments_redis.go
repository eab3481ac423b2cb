package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// lightly is a load that a busy machine can bear, so that what is felt comes of
// the ailment.
func lightly(pl *plan) {
	pl.load = loadOf("healthy", pl.names)
	pl.load.Rate *= 0.2
}

// busily is the same for an ailment that takes a core.
func busily(pl *plan) {
	lightly(pl)
	pl.busy = true
}

// redisTimeouts are the members of the group that all say "Redis timeout", beside
// those that the checker's own faults make.
func redisTimeouts() []ailment {
	return []ailment{
		ill("redis-slow-command", "a script of about 0.3 s, again and again", busily, busyScript(300*time.Millisecond, 100*time.Millisecond)),
		ill("redis-slow-command", "a script of about 0.1 s, five times a second", busily, busyScript(100*time.Millisecond, 150*time.Millisecond)),
		ill("redis-slow-command", "KEYS over a million keys", busily, manyKeys(1_000_000, 100*time.Millisecond)),
		ill("redis-persistence-stall", "SAVE of 400 MB", busily, saves(400, 1500*time.Millisecond)),
		ill("redis-persistence-stall", "SAVE of 250 MB", busily, saves(250, 600*time.Millisecond)),
		ill("redis-persistence-stall", "SAVE of 100 MB", busily, saves(100, 300*time.Millisecond)),
		ill("redis-maxclients", "a fifth of what is needed", lightly, limited(10)),
		ill("redis-maxclients", "others hold them all", lightly, crowded(300)),
		ill("redis-maxclients", "half of what is needed", lightly, limited(25)),
		ill("redis-pool-blocked", "usual load", nil, switched("redis-pool-blocked")),
		ill("redis-pool-blocked", "half the load", asIn("healthy", 0.5), switched("redis-pool-blocked")),
		ill("redis-pool-blocked", "a fifth of the load", lightly, switched("redis-pool-blocked")),
		ill("redis-conn-churn", "killed ten times a second", lightly, kills(100*time.Millisecond)),
		ill("redis-conn-churn", "killed five times a second, a tenth of the load", asIn("healthy", 0.1), kills(200*time.Millisecond)),
		ill("redis-conn-churn", "killed twenty times a second", lightly, kills(50*time.Millisecond)),
	}
}

// refusedWrites are the members of the group in which writes fail and reads go
// on, and the one that loses keys instead.
func refusedWrites() []ailment {
	return []ailment{
		ill("redis-oom", "noeviction, less than it has", lightly, memory("3mb", "noeviction")),
		ill("redis-oom", "noeviction, hardly anything", lightly, memory("1mb", "noeviction")),
		ill("redis-oom", "volatile-lru without enough keys that expire", lightly, memory("2mb", "volatile-ttl")),
		ill("redis-misconf", "every second", lightly, unsaved("1 1")),
		ill("redis-misconf", "after a hundred changes", lightly, unsaved("1 100")),
		ill("redis-misconf", "usual load", nil, unsaved("1 1")),
		ill("redis-readonly", "replica of a master that is gone", lightly, replica("127.0.0.1", "1")),
		ill("redis-readonly", "replica of itself", lightly, func(ctx context.Context, p *patient) error {
			host, port, _ := strings.Cut(p.redis, ":")
			return replica(host, port)(ctx, p)
		}),
		ill("redis-readonly", "usual load", nil, replica("127.0.0.1", "1")),
		ill("redis-eviction", "allkeys-lru", lightly, neighbour("5500kb", "allkeys-lru")),
		ill("redis-eviction", "allkeys-random", lightly, neighbour("5500kb", "allkeys-random")),
		ill("redis-eviction", "volatile-lru", lightly, neighbour("5500kb", "volatile-lru")),
	}
}

// again does something on a connection of its own, at this pace, until the
// patient is discharged. What fails on the way is the patient's trouble.
func again(p *patient, pause time.Duration, do func(ctx context.Context, c *redis.Client)) {
	p.spawn(func(ctx context.Context) {
		c := redis.NewClient(&redis.Options{Addr: p.redis, PoolSize: 1, MaxRetries: -1, ReadTimeout: startup})
		defer c.Close() //nolint:errcheck // nothing is left to lose
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			do(ctx, c)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// busyScript has a script count for so long each time, which holds the server up.
func busyScript(each, every time.Duration) func(context.Context, *patient) error {
	return func(_ context.Context, p *patient) error {
		n := 100_000.0 // how much that is depends on the machine: the first rounds find out
		again(p, every, func(ctx context.Context, c *redis.Client) {
			begun := time.Now()
			if c.Eval(ctx, "local x = 0; for i = 1, tonumber(ARGV[1]) do x = x + i end; return 1", nil, n).Err() == nil {
				n = min(n*each.Seconds()/time.Since(begun).Seconds(), 1e8)
			}
		})
		return nil
	}
}

// stuff writes so many keys of a size, in batches that nobody notices.
func stuff(ctx context.Context, p *patient, keys, size int) error {
	const batch = 2000
	for from := 0; from < keys; from += batch {
		_, err := p.command(ctx, "eval", "local v = string.rep('x', ARGV[3]); for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do redis.call('set', 'filler:' .. i, v) end return 1",
			"0", from, batch, size)
		if err != nil {
			return fmt.Errorf("fill redis: %w", err)
		}
	}
	return nil
}

func manyKeys(keys int, every time.Duration) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		if err := stuff(ctx, p, keys, 1); err != nil {
			return err
		}
		again(p, every, func(ctx context.Context, c *redis.Client) { _ = c.Keys(ctx, "nobody:*").Err() })
		return nil
	}
}

func saves(megabytes int, every time.Duration) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		if err := stuff(ctx, p, megabytes*1000, 1000); err != nil {
			return err
		}
		again(p, every, func(ctx context.Context, c *redis.Client) { _ = c.Save(ctx).Err() })
		return nil
	}
}

// limited lowers maxclients and, as a restart or a hiccup does, has everybody
// connect anew.
func limited(most int) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		c := redis.NewClient(&redis.Options{Addr: p.redis, PoolSize: 1, MaxRetries: -1})
		defer c.Close() //nolint:errcheck // what it did is done
		if err := c.ConfigSet(ctx, "maxclients", strconv.Itoa(most)).Err(); err != nil {
			return fmt.Errorf("set maxclients: %w", err)
		}
		if err := c.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			return fmt.Errorf("drop connections: %w", err)
		}
		return nil
	}
}

// crowded has somebody else hold every connection that the server allows.
func crowded(most int) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		c := redis.NewClient(&redis.Options{Addr: p.redis, PoolSize: most, MaxRetries: -1, ClientName: "somebody-else"})
		p.later(c.Close)
		if err := c.ConfigSet(ctx, "maxclients", strconv.Itoa(most)).Err(); err != nil {
			return fmt.Errorf("set maxclients: %w", err)
		}
		if err := c.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			return fmt.Errorf("drop connections: %w", err)
		}
		for range most {
			held := c.Conn()
			p.later(held.Close)
			if held.Ping(ctx).Err() != nil {
				return nil // every slot is taken
			}
		}
		return nil
	}
}

// kills closes everybody's connections, again and again.
func kills(every time.Duration) func(context.Context, *patient) error {
	return func(_ context.Context, p *patient) error {
		again(p, every, func(ctx context.Context, c *redis.Client) {
			_ = c.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err()
		})
		return nil
	}
}

func memory(most, policy string) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		_, err := p.command(ctx, "config", "set", "maxmemory-policy", policy)
		_, err2 := p.command(ctx, "config", "set", "maxmemory", most)
		return errors.Join(err, err2)
	}
}

// neighbour lets somebody else write to the same Redis all the time, which may
// only hold so much.
func neighbour(most, policy string) func(context.Context, *patient) error {
	const size, life = 2000, time.Hour
	return func(ctx context.Context, p *patient) error {
		value, n := strings.Repeat("x", size), 0
		again(p, 4*time.Millisecond, func(ctx context.Context, c *redis.Client) {
			n++
			_ = c.Set(ctx, "neighbour:"+strconv.Itoa(n), value, life).Err()
		})
		return memory(most, policy)(ctx, p)
	}
}

// unsaved lets saves fail: a folder stands where the file has to go.
func unsaved(save string) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		pid, err := p.redisPid(ctx)
		if err != nil {
			return err
		}
		folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			return fmt.Errorf("find the folder of redis: %w", err)
		}
		if err := os.Mkdir(filepath.Join(folder, "dump.rdb"), 0o700); err != nil {
			return fmt.Errorf("stand in the way of the file: %w", err)
		}
		_, err = p.command(ctx, "config", "set", "save", save)
		return err
	}
}

func replica(host, port string) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		_, err := p.command(ctx, "replicaof", host, port)
		return err
	}
}

// starved are services that do not get the CPU.
func starved() []ailment {
	var all []ailment
	for _, v := range []struct {
		held, let time.Duration
	}{{150 * time.Millisecond, 50 * time.Millisecond}, {250 * time.Millisecond, 50 * time.Millisecond}, {400 * time.Millisecond, 100 * time.Millisecond}} {
		all = append(all, ill("client-starved", fmt.Sprintf("stopped for %v of %v", v.held, v.held+v.let), lightly, func(_ context.Context, p *patient) error {
			frozen(p, p.process.Process.Pid, v.held, v.let)
			return nil
		}))
	}
	return all
}
