package main

import (
	"context"
	"errors"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/local"
)

// backEnds are a real PostgreSQL and Redis of this run's own.
type backEnds struct {
	postgres *local.Postgres
	redis    *local.Redis
}

// startBackEnds starts them and registers names. On an error nothing is left behind.
func startBackEnds(ctx context.Context, o local.PostgresOptions, names int) (b *backEnds, err error) {
	b = &backEnds{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.postgres, err = local.StartPostgres(ctx, o); err != nil {
		return b, err
	}
	if b.redis, err = local.StartRedis(ctx, local.RedisOptions{Real: true}); err != nil {
		return b, err
	}
	return b, local.Seed(ctx, b.postgres.DSNs(), names)
}

// options describe a path over them, with a filter for so many names.
func (b *backEnds) options(capacity uint64) local.Options {
	return local.Options{
		Redis: cache.RedisOptions{Address: b.redis.Addr()}, ShardDSNs: b.postgres.DSNs(),
		Filter: bloom.Params{Capacity: capacity, Rate: 0.01},
	}
}

func (b *backEnds) close() error {
	var errs []error
	if b.redis != nil {
		errs = append(errs, b.redis.Close())
	}
	if b.postgres != nil {
		errs = append(errs, b.postgres.Close())
	}
	return errors.Join(errs...)
}
