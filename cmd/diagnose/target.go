package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/bloom"
	"github.com/regpath/diagnose/probes/clock"
	"github.com/regpath/diagnose/probes/consistency"
	"github.com/regpath/diagnose/probes/errlog"
	"github.com/regpath/diagnose/probes/latency"
	"github.com/regpath/diagnose/probes/postgres"
	"github.com/regpath/diagnose/probes/rediscache"
	"github.com/regpath/diagnose/probes/shards"
	"github.com/regpath/diagnose/probes/source"
	"github.com/regpath/diagnose/probes/traffic"
)

// target is one service to diagnose, with a connection to each of its back
// ends. What was not configured is nil.
type target struct {
	name    string
	config  targetConfig // with its secrets
	checker *source.HTTP
	redis   *source.Redis
	shards  []*source.Postgres
	// consoles are those of the PgBouncers.
	consoles []*source.Postgres
}

func newTarget(c targetConfig) (*target, error) {
	if err := resolveAll(below("target "+c.Name, c.secrets())); err != nil {
		return nil, err
	}
	t := &target{name: c.Name, config: c}
	var err error
	if t.checker, err = source.NewHTTP(source.HTTPOptions{URL: c.Checker.URL, Token: source.Secret(c.Checker.Token.Reveal())}); err != nil {
		return nil, err
	}
	if c.Redis.Address != "" {
		o := source.RedisOptions{Addr: c.Redis.Address, Username: c.Redis.Username, Password: source.Secret(c.Redis.Password.Reveal())}
		if c.Redis.TLS {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if t.redis, err = source.NewRedis(o); err != nil {
			return nil, err
		}
	}
	for _, s := range c.Shards {
		db, err := source.NewPostgres(source.PostgresOptions{Name: s.Name, DSN: source.Secret(s.DSN.Reveal())})
		if err != nil {
			return nil, err
		}
		t.shards = append(t.shards, db)
	}
	for _, b := range c.PgBouncers {
		console, err := source.NewPostgres(source.PostgresOptions{Name: b.Name, DSN: source.Secret(b.DSN.Reveal()), Console: true})
		if err != nil {
			return nil, err
		}
		t.consoles = append(t.consoles, console)
	}
	return t, nil
}

// sameAs reports whether both are the same service, reached the same way.
func (t *target) sameAs(other *target) bool {
	return other != nil && reflect.DeepEqual(t.config, other.config)
}

// catalog lists the kinds of probes there are, bound to the target. It serves
// for checking playbooks with an empty target too.
func (t *target) catalog() probes.Catalog {
	return probes.Catalog{
		"bloom":       bloom.Kind(t.checker),
		"rediscache":  rediscache.Kind(t.checker, t.redis),
		"shards":      shards.Kind(t.checker, t.shards),
		"postgres":    postgres.Kind(t.checker, t.shards, t.consoles),
		"errlog":      errlog.Kind(t.checker),
		"traffic":     traffic.Kind(t.checker),
		"latency":     latency.Kind(t.checker),
		"consistency": consistency.Kind(t.checker),
		"clock":       clock.Kind(t.checker),
	}
}

// openTimeout bounds the opening of all connections together.
const openTimeout = 3 * time.Second

// open opens every connection before it is needed: during the incident there
// may be no slot left. What cannot be opened now is tried again by its probe.
func (t *target) open(ctx context.Context, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var wg sync.WaitGroup
	try := func(name string, open func(context.Context) error) {
		wg.Go(func() {
			if err := open(ctx); err != nil {
				logger.Warn("back end not reached yet", "target", t.name, "source", name, "err", err)
			}
		})
	}
	try(t.checker.Name(), t.checker.Open)
	if t.redis != nil {
		try(t.redis.Name(), t.redis.Open)
	}
	for _, db := range slices.Concat(t.shards, t.consoles) {
		try(db.Name(), db.Open)
	}
	wg.Wait()
}

func (t *target) close(ctx context.Context) {
	t.checker.Close()
	if t.redis != nil {
		t.redis.Close()
	}
	for _, db := range slices.Concat(t.shards, t.consoles) {
		db.Close(ctx)
	}
}
