package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/local"
)

// startOn runs the checker on back ends that the test controls, seeded and
// under the load of the healthy scenario.
func startOn(t *testing.T, redis *local.Redis, postgres *local.Postgres) *local.Path {
	t.Helper()
	if err := local.Seed(t.Context(), postgres.DSNs(), demoNames); err != nil {
		t.Fatal(err)
	}
	path, err := local.Start(t.Context(), local.Options{
		Redis: cache.RedisOptions{Address: redis.Addr()}, ShardDSNs: postgres.DSNs(),
		Filter: bloom.Params{Capacity: demoCapacity, Rate: 0.01},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := startLoad(t.Context(), path.URL, lighter(scenario(t, "healthy").Load))
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("load: %v", err)
		}
		if err := path.Close(); err != nil {
			t.Errorf("close the path: %v", err)
		}
	})
	return path
}

// recorded is the number of errors that the checker has recorded so far.
func recorded(t *testing.T, path *local.Path) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path.URL+"/debug/diagnose/errors", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: 2 * time.Second}).Do(req)
	if err != nil {
		return 0
	}
	defer func() {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	var doc struct{ Recorded int }
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc.Recorded
}
