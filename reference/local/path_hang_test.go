package local_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/local"
)

// TestHang freezes Redis and one of two shards, which is worse than death: connections stay open and nothing answers. Names
// of the other shard are served, those of the frozen one are refused in time, nothing is said to be free that is taken, and
// the diagnostic documents come from memory.
func TestHang(t *testing.T) {
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
	p := &patient{
		T: t, client: http.Client{Timeout: time.Minute},
		Path: startPath(t, local.Options{
			Redis:      cache.RedisOptions{Address: redis.Addr()},
			ShardDSNs:  []string{postgres.DSN(0), postgres.DSN(1)},
			LocalCache: 1,
		}),
	}
	defer p.client.CloseIdleConnections()
	alive, frozen := p.freeName("owned", 0), p.freeName("owned", 1)
	p.registers(alive, http.StatusCreated)
	p.registers(frozen, http.StatusCreated)
	fresh := p.freeName("owned", 0) + "x"
	for p.Service.Shards.Owner(fresh) != 0 {
		fresh += "x"
	}
	p.Service.Filter.Add(fresh, bloom.Query) // so that a free name asks the back ends too

	if err := errors.Join(redis.Pause(), postgres.Pause(1)); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceValue(func() error { return errors.Join(redis.Resume(), postgres.Resume(1)) })
	defer func() { _ = resume() }() // again only where the test failed before
	p.Service.Local.SetTaken("evict-what-is-known")

	var asking sync.WaitGroup
	for _, n := range []string{alive, frozen, fresh} {
		asking.Go(func() {
			for range 2 {
				switch a, err := p.Service.Check(t.Context(), n); {
				case err == nil && n == frozen && a.By == reference.Local && a.Taken: // it may be cached
				case err == nil && n != frozen && a.Taken == (n == alive):
				case errors.Is(err, reference.ErrUnavailable) && n == frozen:
				default:
					t.Errorf("Check(%q) with Redis and shard1 frozen = %+v, %v", n, a, err)
				}
			}
		})
	}
	for range 2 {
		start := time.Now()
		w := p.read()
		if took := time.Since(start); took > 15*time.Second { // what hangs, hangs for as long as they are frozen
			t.Errorf("the documents took %s", took)
		}
		if len(w.Shards.Shards) != 2 {
			t.Errorf("shards = %+v", w.Shards)
		}
	}
	var verify struct {
		Sampled, Missing int
		Shards           []struct {
			Shard, Error string
			Sampled      *int
		}
	}
	p.call(http.MethodGet, "/debug/diagnose/bloom/verify?n=10&min_age=0s", "", http.StatusOK, &verify)
	if len(verify.Shards) != 2 || verify.Shards[0].Sampled == nil || verify.Shards[1].Sampled != nil || verify.Shards[1].Error != "timeout" || verify.Missing != 0 {
		t.Errorf("verify = %+v, want shard0 sampled and shard1 timed out", verify)
	}
	asking.Wait()
	down := (*reference.DownError)(nil)
	if _, err := p.Service.Register(t.Context(), p.freeName("owned", 1)+"y"); p.Service.Shards.Owner(p.freeName("owned", 1)+"y") == 1 && (!errors.As(err, &down) || down.What != "shard1 does not answer") {
		t.Errorf("Register at the frozen shard = %v, want an error that names it", err)
	}
	if _, err := p.Service.Register(t.Context(), fresh); err != nil {
		t.Errorf("Register at the other shard = %v", err)
	}
	if w := p.read(); !w.tells(func(e wireError) bool { return e.Layer == "redis" && e.Code == "timeout" }) {
		t.Errorf("errors = %+v, want a timeout of redis", w.Errors)
	}
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	p.eventually("everything works again", func(wire) bool {
		a, err := p.Service.Check(t.Context(), frozen)
		_, redisErr := p.Service.Redis.Lookup(t.Context(), frozen)
		return err == nil && a.Taken && redisErr == nil
	})
}
