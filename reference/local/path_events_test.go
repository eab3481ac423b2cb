package local_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/local"
)

// TestEventsReachEverybody registers through one instance of two. The filter of the other hears of it, both services are
// told, and the lag of the events, which grew while one was away, goes back to nothing.
func TestEventsReachEverybody(t *testing.T) {
	t.Parallel()
	redis, err := local.StartRedis(t.Context(), local.RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := local.StartPostgres(t.Context(), local.PostgresOptions{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Close(); _ = postgres.Close() })
	posts := map[string]*atomic.Int64{"/profiles": {}, "/welcomes": {}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { posts[r.URL.Path].Add(1) }))
	t.Cleanup(server.Close)
	var instances []*local.Path
	for machine := range 2 {
		instances = append(instances, startPath(t, local.Options{
			Redis: cache.RedisOptions{Address: redis.Addr()}, ShardDSNs: []string{postgres.DSN(0), postgres.DSN(1)}, Machine: machine,
			FollowUpURL: "http://127.0.0.1:9/profiles", WelcomeURL: server.URL + "/welcomes",
		}))
	}
	const names = 3
	for i := range names {
		if _, err := instances[0].Service.Register(t.Context(), fmt.Sprintf("wanted%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	p := &patient{T: t, Path: instances[1], client: http.Client{Timeout: time.Minute}}
	p.eventually("the other filter knows the names", func(wire) bool {
		for i := range names {
			if !p.Service.Filter.Test(fmt.Sprintf("wanted%d", i)) {
				return false
			}
		}
		return true
	})
	lag := func() (sum float64) {
		for _, shard := range []string{"shard0", "shard1"} {
			sum += p.metric(`checker_events_unpublished{shard="` + shard + `"}`)
		}
		return sum
	}
	p.eventually("the lag shows", func(wire) bool { return lag() == names })
	for _, i := range instances {
		if _, err := i.Service.FollowUps.SetURL(server.URL + "/profiles"); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("the lag is gone and both were told", func(wire) bool {
		return lag() == 0 && posts["/profiles"].Load() >= names && posts["/welcomes"].Load() >= names
	})
}

// metric reads one number of /metrics, 0 where it is not there.
func (p *patient) metric(series string) (value float64) {
	p.Helper()
	for line := range strings.Lines(p.text("/metrics")) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				p.Fatalf("%s: %v", line, err)
			}
		}
	}
	return value
}
