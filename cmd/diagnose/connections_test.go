package main

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/local"
)

// TestOneConnectionEach counts the agent's connections, as the back ends see
// them, all through a run.
func TestOneConnectionEach(t *testing.T) {
	path, err := local.Start(t.Context(), local.Options{Real: true, Shards: 2, Names: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := path.Close(); err != nil {
			t.Error(err)
		}
	})
	config := write(t, "diagnose.yml", targetYAML(t, path))

	done := make(chan struct{})
	go func() {
		defer close(done)
		diagnose(t, "run", "--config", config)
	}()
	server := redis.NewClient(&redis.Options{Addr: path.RedisAddr})
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	mostRedis, mostShard := 0, make([]int, len(path.ShardDSNs))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-tick.C:
		}
		list, err := server.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		mostRedis = max(mostRedis, strings.Count(list, " name=diagnose "))
		for i, dsn := range path.ShardDSNs {
			mostShard[i] = max(mostShard[i], sessions(t, dsn))
		}
	}
	if mostRedis != 1 {
		t.Errorf("redis: got at most %d connections of the agent, want 1", mostRedis)
	}
	for i, n := range mostShard {
		if n != 1 {
			t.Errorf("shard%d: got at most %d connections of the agent, want 1", i, n)
		}
	}
}

// sessions counts the agent's sessions on a shard.
func sessions(t *testing.T, dsn string) int {
	t.Helper()
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var n int
	if err := db.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = 'diagnose'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
