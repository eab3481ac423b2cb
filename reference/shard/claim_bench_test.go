package shard_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

// BenchmarkClaim measures a claim, with user row and event, against one bare upsert of a row of the same size through a
// pool of the same size.
func BenchmarkClaim(b *testing.B) {
	const poolSize = 8
	pg, err := local.StartPostgres(context.WithoutCancel(b.Context()), local.PostgresOptions{Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = pg.Close() })
	s, err := shard.OpenPostgres(b.Context(), pg.DSN(0), shard.PostgresOptions{PoolSize: poolSize})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	pool, err := pgxpool.New(b.Context(), pg.DSN(0)+"&pool_max_conns="+strconv.Itoa(poolSize))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	const table = `CREATE TABLE bare (username text COLLATE "C" PRIMARY KEY, user_id bigint NOT NULL, created_at timestamptz NOT NULL)`
	if _, err := pool.Exec(b.Context(), table); err != nil {
		b.Fatal(err)
	}

	var next atomic.Int64
	each := func(b *testing.B, call func(n string, id int64) error) {
		b.SetParallelism(poolSize / 2)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				id := next.Add(1)
				if err := call("user"+strconv.FormatInt(id, 10), id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		each(b, func(n string, id int64) error {
			const upsert = "INSERT INTO bare VALUES ($1, $2, $3) ON CONFLICT (username) DO NOTHING RETURNING user_id"
			return pool.QueryRow(b.Context(), upsert, n, id, time.Now()).Scan(&id)
		})
	})
	b.Run("claim", func(b *testing.B) {
		each(b, func(n string, id int64) error {
			_, err := s.Claim(b.Context(), shard.Claim{Name: n, UserID: id, At: time.Now()})
			return err
		})
	})
}
