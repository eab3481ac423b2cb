package shard_test

import (
	"strings"
	"testing"

	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

// checkReplica looks names up by another way than it registers them. The replica is the same server: what matters is where
// the questions go.
func checkReplica(t *testing.T, pg *local.Postgres) {
	other := strings.Replace(pg.DSN(0), "sslmode=disable", "sslmode=disable&application_name=reader", 1)
	s, err := shard.OpenPostgres(t.Context(), pg.DSN(0), shard.PostgresOptions{PoolSize: 2, Replica: other})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := shard.NewCluster([]shard.Store{s}, shard.DefaultRoutingTable(1))
	if err != nil {
		t.Fatal(err)
	}
	if won, err := c.Claim(t.Context(), shard.Claim{Name: "replicated", UserID: 9, At: epoch}); err != nil || !won {
		t.Fatalf("claim: %v, %v", won, err)
	}
	if _, found, err := c.Lookup(t.Context(), "replicated"); err != nil || !found {
		t.Errorf("look up: %v, %v", found, err)
	}
	got := c.Stats()[0]
	if got.Replica == nil || got.Replica.Lookups != 1 || got.Replica.Address != got.Address || got.Pool.InUse != 0 || got.Pool.Acquires < 2 {
		t.Errorf("stats: %+v, replica %+v", got.Pool, got.Replica)
	}
	if _, err := shard.OpenPostgres(t.Context(), pg.DSN(0), shard.PostgresOptions{Replica: "postgres://app:hunter2@127.0.0.1:notaport/db"}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a malformed DSN of a replica: %v", err)
	}
}
