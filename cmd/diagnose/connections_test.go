package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/local"
)

// TestOneConnectionEach counts the agent's connections, as the back ends see
// them, all through a run, and holds what the run says it cost against the
// limits of one.
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
	front := newFront(t, path.URL)
	behind := *path
	behind.URL = front.server.URL
	config := write(t, "diagnose.yml", targetYAML(t, &behind))

	done := make(chan struct{})
	var report playbooks.Report
	go func() {
		defer close(done)
		report, _, _ = runJSON(t, config)
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
	if n := front.most.Load(); n != 1 {
		t.Errorf("checker: got at most %d connections of the agent, want 1", n)
	}
	const toOpen = 1 // the connection is opened by a request before the run
	cost := report.Cost
	if n := front.requests.Load(); n != int64(cost.HTTPRequests)+toOpen {
		t.Errorf("checker: got %d requests, the report says %d", n-toOpen, cost.HTTPRequests)
	}
	if shards := len(path.ShardDSNs); cost.HTTPRequests > 8 || cost.RedisCommands > 12 || cost.Queries > 12*shards || cost.Bytes == 0 {
		t.Errorf("the run cost %+v, want at most 8 requests, 12 Redis commands and 12 queries on each of %d shards", cost, shards)
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

// front stands before a service and counts what comes to it.
type front struct {
	server               *httptest.Server
	open, most, requests atomic.Int64
}

func newFront(t *testing.T, service string) *front {
	t.Helper()
	to, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	f := new(front)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	f.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state { //nolint:exhaustive // the states between are of no interest
		case http.StateNew:
			f.most.Store(max(f.most.Load(), f.open.Add(1)))
		case http.StateClosed:
			f.open.Add(-1)
		}
	}
	f.server.Start()
	t.Cleanup(f.server.Close)
	return f
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
