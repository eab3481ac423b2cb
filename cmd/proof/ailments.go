package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
)

// ailment is one way for a patient to be ill, or to be well under strain.
type ailment struct {
	// variant tells it from the others with the same label: "half of maxclients".
	variant string
	label   label
	// prepare changes the plan before the start; may be nil.
	prepare func(*plan)
	// hurt does it, from outside wherever that can be; nil where the plan alone is
	// the trouble. It returns once the harm is done.
	hurt func(ctx context.Context, p *patient) error
	// blind keeps the agent from seeing, by what it does to the agent's arguments;
	// nil for an agent that sees all.
	blind func(ctx context.Context, p *patient) error
}

func (a ailment) String() string { return a.label.String() + "/" + a.variant }

// plan is what the patient is like to begin with.
func (a ailment) plan() plan {
	pl := usual()
	if a.prepare != nil {
		a.prepare(&pl)
	}
	return pl
}

// ill is an ailment with one root.
func ill(cause, variant string, prepare func(*plan), hurt func(ctx context.Context, p *patient) error) ailment {
	return ailment{variant: variant, label: label{roots: []string{cause}}, prepare: prepare, hurt: hurt}
}

// well is a service that nothing is wrong with.
func well(variant string, prepare func(*plan), strain func(ctx context.Context, p *patient) error) ailment {
	return ailment{variant: variant, prepare: prepare, hurt: strain}
}

// both is two independent ailments at once.
func both(a, b ailment) ailment {
	return ailment{
		variant: a.variant + ", " + b.variant,
		label:   label{roots: slices.Concat(a.label.roots, b.label.roots)},
		prepare: func(pl *plan) {
			for _, one := range []ailment{a, b} {
				if one.prepare != nil {
					one.prepare(pl)
				}
			}
		},
		hurt: func(ctx context.Context, p *patient) error {
			var errs []error
			for _, one := range []ailment{a, b} {
				if one.hurt != nil {
					errs = append(errs, one.hurt(ctx, p))
				}
			}
			return errors.Join(errs...)
		},
	}
}

// unseen is an ailment of which the agent cannot measure one step.
func unseen(a ailment, step, how string, blind func(ctx context.Context, p *patient) error) ailment {
	a.label.blind, a.blind = step, blind
	a.variant += ", " + step + " " + how
	return a
}

// usual is the plan of a patient who is well.
func usual() plan {
	pl := plan{names: 20_000, capacity: 30_000, warm: 3 * time.Second, sick: 6 * time.Second}
	pl.load = loadOf("healthy", pl.names)
	return pl
}

// loadOf is the load of one of the demo's scenarios.
func loadOf(scenario string, names int) load.Profile {
	const bound = 4 * time.Minute
	for _, s := range append(fault.Scenarios(names, bound), fault.Loads(names, bound)...) {
		if s.Name == scenario {
			return s.Load
		}
	}
	panic("no scenario " + scenario)
}

// asIn puts a scenario's load on the patient, so many times as heavy.
func asIn(scenario string, times float64) func(*plan) {
	return func(pl *plan) {
		pl.load = loadOf(scenario, pl.names)
		pl.load.Rate *= times
	}
}

// filterFor makes the filter for so many names.
func filterFor(capacity int) func(*plan) {
	return func(pl *plan) { pl.capacity = capacity }
}

// switched turns one of the checker's faults on.
func switched(name string) func(ctx context.Context, p *patient) error {
	return func(ctx context.Context, p *patient) error { return p.fault(ctx, name) }
}

// ailments are all of them.
func ailments() []ailment {
	return slices.Concat(
		bloomAilments(), writerAilments(),
		redisAilments(), redisTimeouts(), refusedWrites(), starved(), cacheAilments(),
		shardAilments(), heldUp(), refusing(), behind(),
		errorAilments(), ruleAilments(), crowdAilments(),
		wellVariants(), pairs(), halfBlind())
}

func bloomAilments() []ailment {
	return []ailment{
		ill("bloom-undersized", "rebuilt for a fifth", nil, switched("bloom-undersized")),
		ill("bloom-undersized", "names for two filters", filterFor(10_000), nil),
		ill("bloom-undersized", "names for five thirds of a filter", filterFor(12_000), nil),
		ill("bloom-write-on-read", "a promotion", asIn("write-on-read", 1), switched("write-on-read")),
		ill("bloom-write-on-read", "half of a promotion", asIn("write-on-read", 0.6), switched("write-on-read")),
		ill("bloom-write-on-read", "a filter with no room to spare", func(pl *plan) { pl.capacity = 21_000 }, switched("write-on-read")),
	}
}

func redisAilments() []ailment {
	return []ailment{
		ill("redis-down", "stopped", nil, switched("redis-down")),
		ill("redis-down", "frozen", nil, func(ctx context.Context, p *patient) error {
			pid, err := p.redisPid(ctx)
			if err != nil {
				return err
			}
			return p.freeze(pid)
		}),
		ill("redis-down", "shut down from outside", nil, func(ctx context.Context, p *patient) error {
			_, _ = p.command(ctx, "shutdown", "nosave") // it answers by going
			return nil
		}),
		ill("redis-pool-too-small", "far off", nil, switched("redis-pool")),
		ill("redis-pool-too-small", "far off, half as much load again", asIn("healthy", 1.5), switched("redis-pool")),
		ill("redis-pool-too-small", "far off, more free names", asIn("write-on-read", 0.5), switched("redis-pool")),
		ill("redis-pool-leak", "usual load", nil, switched("redis-pool-leak")),
		ill("redis-pool-leak", "half the load", asIn("healthy", 0.5), switched("redis-pool-leak")),
		ill("redis-pool-leak", "half as much load again", asIn("healthy", 1.5), switched("redis-pool-leak")),
	}
}

func shardAilments() []ailment {
	all := []ailment{
		ill("hot-name", "a third of the load", asIn("hot-name", 1), nil),
		ill("hot-name", "half as much again", asIn("hot-name", 1.5), nil),
		ill("hot-name", "half", asIn("hot-name", 0.6), nil),
		ill("shard-down", "stopped", nil, switched("shard-down")),
	}
	for _, shard := range []int{0, 2} {
		all = append(all, ill("shard-down", "frozen shard"+strconv.Itoa(shard), nil, func(ctx context.Context, p *patient) error {
			return p.freezeShard(ctx, shard)
		}))
	}
	return all
}

func errorAilments() []ailment {
	return []ailment{
		ill("error-after-change", "usual load", nil, switched("error-burst")),
		ill("error-after-change", "twice the load", asIn("healthy", 2), switched("error-burst")),
		ill("error-after-change", "half the load", asIn("healthy", 0.5), switched("error-burst")),
	}
}

func wellVariants() []ailment {
	return []ailment{
		well("usual load", nil, nil),
		well("twice the load", asIn("healthy", 2), nil),
		well("a promotion that is served", asIn("promotion", 0.5), nil),
		well("a tenth of the load", asIn("healthy", 0.1), nil),
		well("a filter that is nearly full", filterFor(21_500), nil),
		well("a cold start", func(pl *plan) { pl.warm, pl.sick = time.Second, 10*time.Second }, func(ctx context.Context, p *patient) error {
			_, err := p.command(ctx, "flushall")
			return err
		}),
		well("many ask for names that are taken", func(pl *plan) {
			pl.load.HotName, pl.load.HotRegister, pl.load.HotShare = load.Name(7), true, 0.02
		}, nil),
		well("names nobody registers", func(pl *plan) { pl.load.RegisterShare = 0 }, nil),
		well("a slow but healthy shard", on(estate{shards: 4, way: far(5*time.Millisecond, 2)}), nil),
		well("an empty system", func(pl *plan) { pl.names, pl.load.TakenShare = 0, 0 }, nil),
		well("a cold start of everything", on(estate{shards: 4, cold: true}), nil),
	}
}

// pairs are independent faults at once: both are roots.
func pairs() []ailment {
	undersized := ill("bloom-undersized", "two filters", filterFor(10_000), nil)
	leak := ill("redis-pool-leak", "leak", nil, switched("redis-pool-leak"))
	frozen := ill("shard-down", "frozen shard1", nil, func(ctx context.Context, p *patient) error { return p.freezeShard(ctx, 1) })
	errs := ill("error-after-change", "burst", nil, switched("error-burst"))
	gone := ill("redis-down", "stopped", nil, switched("redis-down"))
	written := ill("bloom-write-on-read", "written", asIn("write-on-read", 1), switched("write-on-read"))
	return []ailment{
		both(undersized, errs), both(undersized, frozen), both(undersized, gone), both(leak, errs), both(leak, frozen),
		both(frozen, errs), both(written, errs), both(written, frozen), both(gone, frozen),
	}
}

// halfBlind are runs in which the agent is kept from a layer.
func halfBlind() []ailment {
	undersized := ill("bloom-undersized", "two filters", filterFor(10_000), nil)
	leak := ill("redis-pool-leak", "leak", nil, switched("redis-pool-leak"))
	frozen := ill("shard-down", "frozen shard1", nil, func(ctx context.Context, p *patient) error { return p.freezeShard(ctx, 1) })
	errs := ill("error-after-change", "burst", nil, switched("error-burst"))
	fine := well("usual load", nil, nil)
	return []ailment{
		unseen(undersized, "redis", "refused", refused("--redis")),
		unseen(leak, "redis", "refused", refused("--redis")),
		unseen(errs, "redis", "refused", refused("--redis")),
		unseen(fine, "redis", "refused", refused("--redis")),
		unseen(undersized, "redis", "hangs", hangs("--redis")),
		unseen(leak, "redis", "hangs", hangs("--redis")),
		unseen(fine, "redis", "hangs", hangs("--redis")),
		unseen(undersized, "shards", "refused", refused("--shard-dsn")),
		unseen(fine, "shards", "refused", refused("--shard-dsn")),
		unseen(leak, "shards", "hangs", hangs("--shard-dsn")),
		unseen(errs, "shards", "hangs", hangs("--shard-dsn")),
		unseen(frozen, "bloom", "refused", refused("--checker")),
		unseen(undersized, "bloom", "refused", refused("--checker")),
	}
}

// refused points the agent at a port where nobody listens.
func refused(flag string) func(ctx context.Context, p *patient) error {
	return func(ctx context.Context, p *patient) error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
		p.point(flag, l.Addr().String())
		return l.Close()
	}
}

// hangs points the agent at a server that takes connections and says nothing.
func hangs(flag string) func(ctx context.Context, p *patient) error {
	return func(ctx context.Context, p *patient) error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		p.later(l.Close)
		p.point(flag, l.Addr().String())
		return nil // the kernel takes the connections
	}
}

// point leads the agent to another address for everything that a flag names.
func (p *patient) point(flag, addr string) {
	switch flag {
	case "--checker":
		addr = "http://" + addr
	case "--shard-dsn":
		addr = "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	}
	p.agent = slices.Clone(p.agent)
	for i := 1; i < len(p.agent); i++ {
		if p.agent[i-1] == flag {
			p.agent[i] = addr
		}
	}
}
