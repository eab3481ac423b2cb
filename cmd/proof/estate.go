package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/regpath/diagnose/reference/local"
)

// estate are back ends of the proof's own, in place of the checker's private ones:
// for what those cannot be, such as far away, behind a pooler or with a standby.
type estate struct {
	shards int
	empty  bool // of names, at the start
	cold   bool // of markers in Redis
	// way answers over which DSN the checker reaches a shard; nil for its own.
	way func(ctx context.Context, p *patient, shard int) (dsn string, err error)
	// reader is the same for look-ups; nil where they go where everything goes.
	reader func(ctx context.Context, p *patient, shard int) (dsn string, err error)
}

// on has the patient live on an estate.
func on(e estate) func(*plan) {
	return func(pl *plan) {
		lightly(pl)
		names := pl.names
		pl.markers = !e.empty && !e.cold
		pl.build = func(ctx context.Context, p *patient) (flags []string, err error) { return e.build(ctx, p, names) }
	}
}

func (e estate) build(ctx context.Context, p *patient, names int) (flags []string, err error) {
	if p.postgres, err = local.StartPostgres(ctx, local.PostgresOptions{Shards: e.shards}); err != nil {
		return nil, err
	}
	p.ruins = append(p.ruins, p.postgres.Close)
	if !e.empty {
		if err := local.Seed(ctx, p.postgres.DSNs(), names); err != nil {
			return nil, err
		}
	}
	for i := range e.shards {
		dsn := p.postgres.DSN(i)
		if e.way != nil {
			if dsn, err = e.way(ctx, p, i); err != nil {
				return nil, fmt.Errorf("way to shard%d: %w", i, err)
			}
		}
		flags = append(flags, "--shard-dsn", dsn)
		if e.reader != nil {
			if dsn, err = e.reader(ctx, p, i); err != nil {
				return nil, fmt.Errorf("reader of shard%d: %w", i, err)
			}
			flags = append(flags, "--shard-replica-dsn", dsn)
		}
	}
	return flags, nil
}

// far is a way on which everything takes so much longer, each way.
func far(each time.Duration, which ...int) func(ctx context.Context, p *patient, shard int) (string, error) {
	return func(_ context.Context, p *patient, shard int) (string, error) {
		dsn := p.postgres.DSN(shard)
		for _, w := range which {
			if w != shard {
				continue
			}
			u, err := url.Parse(dsn)
			if err != nil {
				return "", err
			}
			proxy, err := local.NewDelayProxy(p.life, u.Host)
			if err != nil {
				return "", err
			}
			proxy.SetDelay(each, each)
			p.ruins = append(p.ruins, func() error { proxy.Close(); return nil })
			u.Host = proxy.Addr()
			return u.String(), nil
		}
		return dsn, nil
	}
}
