package local_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/local"
)

func startPath(t *testing.T, o local.Options) *local.Path {
	t.Helper()
	p, err := local.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// TestHotName lets everybody want one name: its shard bears it, and is left alone when the switch is off.
func TestHotName(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, Path: startPath(t, local.Options{Shards: 2, Names: 200, Faults: true}), client: http.Client{Timeout: time.Minute}}
	hot := p.Service.Shards.Owner(fault.HotName)
	p.fault(http.MethodPost, "hot-name")
	p.eventually("one shard has most of the requests, and one name most of them", func(w wire) bool {
		sum := uint64(0)
		for _, s := range w.Shards.Shards {
			sum += s.Requests
		}
		keys, requests := w.Shards.Shards[hot].TopKeys.Keys, w.Shards.Shards[hot].Requests
		return len(keys) > 0 && keys[0].Key == fault.HotName && keys[0].Count > 50 && (keys[0].Count-keys[0].Error)*2 >= requests && requests*2 >= sum
	})
	p.eventually("the crowd is refused", func(wire) bool {
		return p.metric(`checker_http_requests_total{code="409",endpoint="register"}`) > 50
	})
	p.fault(http.MethodDelete, "hot-name")
	last := p.read()
	p.eventually("nobody asks any more", func(w wire) bool {
		quiet := w.Shards.Shards[hot].Requests == last.Shards.Shards[hot].Requests
		last = w
		return quiet
	})
}

// TestYours runs two instances on Redis and databases of somebody else, and lets users race for names over both.
func TestYours(t *testing.T) {
	t.Parallel()
	redis, err := local.StartRedis(t.Context(), local.RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := local.StartPostgres(t.Context(), local.PostgresOptions{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(redis.Close(), postgres.Close()); err != nil {
			t.Error(err)
		}
	})
	var instances []*local.Path
	for machine := range 2 {
		instances = append(instances, startPath(t, local.Options{
			Redis:     cache.RedisOptions{Address: redis.Addr()},
			ShardDSNs: []string{postgres.DSN(0), postgres.DSN(1)},
			Names:     1000, Machine: machine, Faults: true,
		}))
	}
	p := instances[0]
	if p.RedisAddr != redis.Addr() || len(p.ShardDSNs) != 2 || p.Service.Filter.Stats().NamesAdded() != 0 {
		t.Errorf("path = %+v with %d names, want what was given, and nothing seeded", p, p.Service.Filter.Stats().NamesAdded())
	}
	for _, s := range p.Faults.List() {
		if s.Name == "redis-down" || s.Name == "shard-down" {
			t.Errorf("%s is offered for servers that are not ours", s.Name)
		}
	}
	ids := map[int64]bool{}
	for i := range 30 {
		n := fmt.Sprintf("wanted%d", i)
		var won, taken atomic.Int32
		var id atomic.Int64
		var race sync.WaitGroup
		for _, p := range instances {
			for range 3 {
				race.Go(func() {
					switch r, err := p.Service.Register(t.Context(), n); {
					case err == nil:
						won.Add(1)
						id.Store(r.UserID)
					case errors.Is(err, reference.ErrTaken):
						taken.Add(1)
					default:
						t.Errorf("register: %v", err)
					}
				})
			}
		}
		race.Wait()
		if won.Load() != 1 || taken.Load() != 5 || ids[id.Load()] {
			t.Errorf("%s: %d won, %d were refused, id %d", n, won.Load(), taken.Load(), id.Load())
		}
		ids[id.Load()] = true
	}
}

// TestCloseLeavesNothing starts in a temporary folder of its own and looks into it.
func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	p, err := local.Start(t.Context(), local.Options{Shards: 2, Names: 100, Faults: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Faults.Switch(t.Context(), "redis-down", true); err != nil { // closing mends it
		t.Fatal(err)
	}
	if _, err := p.Faults.Switch(t.Context(), "shard-down", true); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*", "*.db")); err != nil || len(files) != 2 {
		t.Errorf("shards lie in %v, %v, want two files", files, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("Close returned before the path was done")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, address := range []string{strings.TrimPrefix(p.URL, "http://"), p.RedisAddr} {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s still answers", address)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	f := func(o local.Options, want string) {
		t.Helper()
		p, err := local.Start(t.Context(), o)
		if err == nil {
			_ = p.Close()
			t.Errorf("Start(%+v) succeeded, want an error with %q", o, want)
			return
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Start error = %v, want %q in it and no secret", err, want)
		}
	}
	f(local.Options{Shards: -1}, "number of shards")
	f(local.Options{Shards: 1025}, "number of shards")
	f(local.Options{Names: -1}, "number of names")
	f(local.Options{Machine: 1024}, "machine number")
	f(local.Options{Filter: bloom.Params{Rate: 2}}, "target rate")
	f(local.Options{LocalCache: -1}, "local cache size")
	f(local.Options{FollowUpURL: "http://u:s3cret@h/"}, "follow-up URL")
	f(local.Options{Redis: cache.RedisOptions{Address: "h:1", PoolSize: -1, Password: "s3cret"}}, "pool size")
	f(local.Options{ShardDSNs: []string{"postgres://u:s3cret@127.0.0.1:1/x?connect_timeout=1"}}, "shard0")
	f(local.Options{ShardDSNs: []string{"postgres://u:s3cret@h:x/"}}, "shard0")
	f(local.Options{Listen: busy.Addr().String(), Shards: 1}, "address already in use")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("failed starts left behind: %v, %v", left, err)
	}
}

// TestLeaseMachine wants a machine number from a Redis that has just started, which cannot know who holds which.
func TestLeaseMachine(t *testing.T) {
	t.Parallel()
	redis, err := local.StartRedis(t.Context(), local.RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := redis.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := local.Start(t.Context(), local.Options{Shards: 1, Redis: cache.RedisOptions{Address: redis.Addr()}, LeaseMachine: true})
	if err == nil {
		err = p.Close()
		t.Fatalf("it started, and closed with %v", err)
	}
	if want := "may have forgotten leases"; !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
