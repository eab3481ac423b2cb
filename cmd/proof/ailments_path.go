package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/name"
)

// writerAilments are filters that lack names.
func writerAilments() []ailment {
	restored := func(names int) func(context.Context, *patient) error {
		return func(ctx context.Context, p *patient) error { return local.Seed(ctx, p.postgres.DSNs(), names) }
	}
	bare := on(estate{shards: 4, empty: true})
	return []ailment{
		ill("bloom-missing", "names restored after the start", bare, restored(20_000)),
		ill("bloom-missing", "few names restored after the start", bare, restored(2_000)),
		ill("bloom-missing", "names restored after the start, more registrations", registering(30, bare), restored(10_000)),
		ill("bloom-hash-mismatch", "capitals", writing(60), switched("filter-other-spelling")),
		ill("bloom-hash-mismatch", "one class of names", writing(150), switched("filter-other-class")),
		ill("bloom-hash-mismatch", "capitals, few registrations", writing(25), switched("filter-other-spelling")),
		ill("bloom-lost-adds", "all", writing(30), switched("filter-drops-adds")),
		ill("bloom-lost-adds", "one in eight", writing(80), switched("filter-tears-adds")),
		ill("bloom-lost-adds", "all, usual load", registering(20, nil), switched("filter-drops-adds")),
		ill("bloom-canary-invalid", "usual load", nil, switched("clipped-names")),
		ill("bloom-canary-invalid", "a fifth of the load", lightly, switched("clipped-names")),
		ill("bloom-canary-invalid", "more registrations", writing(40), switched("clipped-names")),
	}
}

// writing brings so many registrations a second, and lets twelve seconds of them
// meet the mistake: what is tested are the latest.
func writing(perSecond float64) func(*plan) {
	return func(pl *plan) {
		registering(perSecond, lightly)(pl)
		pl.warm, pl.sick = time.Second, 12*time.Second
	}
}

// popular is a load in which few names are asked for again and again, for long
// enough to count how often.
func popular(times float64) func(*plan) {
	return func(pl *plan) {
		asIn("healthy", times)(pl)
		pl.load.Names = 500
		pl.warm, pl.sick = time.Second, 12*time.Second
	}
}

// cacheAilments are caches that do not hold back what they should.
func cacheAilments() []ailment {
	// cold brings a load of existing names, of which a cold Redis has none.
	cold := func(rate float64, pool string, each time.Duration) func(*plan) {
		return withFlags(func(pl *plan) {
			on(estate{shards: 4, way: far(each, 0, 1, 2, 3)})(pl)
			pl.load = loadOf("healthy", pl.names)
			pl.load.Rate, pl.load.TakenShare, pl.load.ZipfS = rate, 0.9, 0.3
			pl.warm = time.Second
		}, "--shard-pool", pool)
	}
	flushed := func(ctx context.Context, p *patient) error {
		_, err := p.command(ctx, "flushall")
		return err
	}
	return []ailment{
		ill("cache-stampede", "popular names", popular(1), switched("cache-stampede")),
		ill("cache-stampede", "half the load", popular(0.5), switched("cache-stampede")),
		ill("cache-stampede", "a third of the load", popular(0.33), switched("cache-stampede")),
		ill("cache-penetration", "usual load", nil, switched("cache-penetration")),
		ill("cache-penetration", "a third of the load", asIn("healthy", 0.33), switched("cache-penetration")),
		ill("cache-penetration", "a promotion", asIn("promotion", 0.2), switched("cache-penetration")),
		ill("cache-cold", "shards far away, small pools", cold(600, "2", 10*time.Millisecond), flushed),
		ill("cache-cold", "shards further away", cold(600, "4", 25*time.Millisecond), flushed),
		ill("cache-cold", "single connections", cold(450, "1", 5*time.Millisecond), flushed),
		ill("cache-negative-stale", "few registrations", writing(20), switched("stale-negatives")),
		ill("cache-negative-stale", "a fifth of the load", writing(40), switched("stale-negatives")),
		ill("cache-negative-stale", "many registrations", writing(120), switched("stale-negatives")),
	}
}

// ruleAilments are mistakes in ids, states and follow-ups.
func ruleAilments() []ailment {
	// Whole tables, so that any sample has some of them.
	freed := func(shard int, until string) func(context.Context, *patient) error {
		return tells(shard, everyTable(fmt.Sprintf("UPDATE names_%%02d SET state = %d, recyclable_at = now() %s WHERE username < 'n'", name.Released, until))...)
	}
	return []ailment{
		ill("clock-rollback", "usual load", nil, switched("clock-rollback")),
		ill("clock-rollback", "more registrations", registering(60, lightly), switched("clock-rollback")),
		ill("clock-rollback", "a fifth of the load", lightly, switched("clock-rollback")),
		ill("worker-id-collision", "150 registrations a second", registering(150, on(estate{shards: 4})), twin(150)),
		ill("worker-id-collision", "250 registrations a second, two shards", registering(250, on(estate{shards: 2})), twin(150)),
		ill("worker-id-collision", "100 registrations a second, one shard", registering(100, on(estate{shards: 1})), twin(100)),
		ill("state-bypass", "20 names of each shard", lightly, switched("state-bypass")),
		ill("state-bypass", "many names of shard2", nil, freed(2, "- interval '1 minute'")),
		ill("state-bypass", "many names of shard0, cool-down of a day", lightly, freed(0, "+ interval '1 day'")),
		ill("sync-followups", "usual load", nil, switched("sync-followups")),
		ill("sync-followups", "more registrations", registering(40, lightly), switched("sync-followups")),
		ill("sync-followups", "a fifth of the load", registering(5, lightly), switched("sync-followups")),
	}
}

// twin starts a second instance with the machine number of the first, and lets
// users register there.
func twin(perSecond float64) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		args := []string{"--listen", "127.0.0.1:0", "--redis", p.redis, "--filter-capacity", strconv.Itoa(p.plan.capacity)}
		for _, dsn := range p.shards {
			args = append(args, "--shard-dsn", dsn)
		}
		second, err := startInstance(p.life, p.checker, os.Stderr, args...)
		if err != nil {
			return err
		}
		p.later(second.stop)
		profile := p.plan.load
		profile.Rate, profile.RegisterShare, profile.Seed = perSecond, 1, profile.Seed+1
		p.spawn(func(ctx context.Context) { p.send(ctx, second.url, profile) })
		return pause(ctx, time.Second)
	}
}

// crowdAilments bring more than before: a baseline of half a minute is needed, and
// it ends half a minute before the present. Who asks is told of up to a minute.
func crowdAilments() []ailment {
	more := func(profile func() load.Profile) func(context.Context, *patient) error {
		return func(_ context.Context, p *patient) error {
			p.spawn(func(ctx context.Context) { p.send(ctx, p.url, profile()) })
			return nil
		}
	}
	watched := func(pl *plan) {
		lightly(pl)
		pl.warm, pl.sick = 55*time.Second, 25*time.Second
	}
	// A small instance: what two cores cannot bear, the load that they send is no measure of.
	crowded := func(pl *plan) {
		watched(pl)
		pl.busy, pl.cores = true, 1
	}
	flood := func(rate, register float64) func() load.Profile {
		return func() load.Profile {
			f := loadOf("bot-flood", usual().names)
			f.Rate, f.RegisterShare = rate, register
			return f
		}
	}
	roomy := func(pl *plan) {
		crowded(pl)
		pl.capacity = 1_000_000 // for those who sign up
	}
	// What the filter answers costs next to nothing: a crowd is felt by what it asks of Redis and the shards.
	surge := func(rate, taken, register float64) func() load.Profile {
		return func() load.Profile {
			f := loadOf("promotion", usual().names)
			f.Rate, f.Workers, f.TakenShare, f.RegisterShare = rate, 1024, taken, register
			return f
		}
	}
	return []ailment{
		ill("bot-flood", "checks and registrations", watched, more(flood(900, 0.3))),
		ill("bot-flood", "checks alone", watched, more(flood(700, 0))),
		ill("bot-flood", "registrations alone", watched, more(flood(300, 0.9))),
		ill("traffic-surge", "a promotion among registered names", crowded, more(surge(40_000, 0.7, 0.01))),
		ill("traffic-surge", "a larger promotion", crowded, more(surge(60_000, 0.9, 0.01))),
		ill("traffic-surge", "a promotion for which people sign up", roomy, more(surge(40_000, 0.3, 0.4))),
	}
}

// secretFile writes what the agent reads from a file.
func secretFile(p *patient, text string) (string, error) {
	dir, err := os.MkdirTemp("", "diagnose-proof-")
	if err != nil {
		return "", fmt.Errorf("make a folder for a DSN: %w", err)
	}
	p.later(func() error { return os.RemoveAll(dir) })
	file := filepath.Join(dir, "dsn")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write a DSN: %w", err)
	}
	return file, nil
}
