package local_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
)

// TestFaults switches every fault on under load, sees its effect in the numbers, switches it off, and sees it gone.
func TestFaults(t *testing.T) {
	for _, servers := range []bool{false, true} {
		t.Run(fmt.Sprintf("real=%v", servers), func(t *testing.T) {
			t.Parallel()
			const names = 2000
			profiles := newFollower(t)
			p := &patient{T: t, client: http.Client{Timeout: time.Minute}, Path: startPath(t, local.Options{
				Real: servers, Shards: 2, Names: names, LocalCache: 100, FollowUpURL: profiles.url, Faults: true,
			})}
			defer p.client.CloseIdleConnections()

			profile := load.Profile{Rate: 150, Duration: 10 * time.Minute, Workers: 128, Names: names, TakenShare: 0.9, RegisterShare: 0.02}
			ctx, stop := context.WithCancel(t.Context())
			loaded := make(chan struct{})
			go func() {
				defer close(loaded)
				if _, err := load.Run(ctx, p.URL, profile); err != nil {
					t.Errorf("load: %v", err)
				}
			}()
			defer func() { stop(); <-loaded }()

			well := p.eventually("a well path under load", func(w wire) bool { return w.Redis.Hits["taken"] > 50 && w.Bloom.Registrations > 0 })
			if rate := p.falsePositives(); rate > 0.02 {
				t.Fatalf("not well to begin with: false positives %.3f", rate)
			}
			p.undersized(names)
			p.writeOnRead()
			p.redisPool(well)
			p.redisPoolTaken()
			p.redisDown()
			p.shardDown(servers)
			known := 23
			if servers {
				p.shardPoolLeak()
				known = 24
			}
			p.errorBurst()
			p.cacheStampede()
			p.clockRollback()
			p.syncFollowUps(profiles)
			p.workerCollision(servers)
			var all struct{ Faults []fault.State }
			p.call(http.MethodGet, "/debug/fault/", "", http.StatusOK, &all)
			if len(all.Faults) != known {
				t.Errorf("%d faults, want %d: %+v", len(all.Faults), known, all)
			}
			for _, f := range all.Faults {
				if f.On {
					t.Errorf("%s is still on", f.Name)
				}
			}
		})
	}
}

func (p *patient) undersized(names uint64) {
	before := p.read()
	p.fault(http.MethodPost, "bloom-undersized")
	w := p.read()
	if fill := float64(w.Bloom.SetBits) / float64(w.Bloom.M); w.Bloom.Capacity > names/5+50 || fill < 0.9 {
		p.Errorf("undersized: capacity %d, fill %.2f, want a fifth of %d and nearly full", w.Bloom.Capacity, fill, names)
	}
	if rate := p.falsePositives(); rate < 0.5 {
		p.Errorf("undersized: false positives %.3f, want most", rate)
	}
	p.eventually("free names reach Redis", func(w wire) bool { return w.Redis.Misses > before.Redis.Misses+10 })
	p.fault(http.MethodDelete, "bloom-undersized")
	if w := p.read(); w.Bloom.Capacity != before.Bloom.Capacity || p.falsePositives() > 0.02 {
		p.Errorf("undersized, off: %+v, false positives %.3f", w.Bloom, p.falsePositives())
	}
}

func (p *patient) writeOnRead() {
	p.fault(http.MethodPost, "write-on-read")
	w := p.eventually("the query path writes", func(w wire) bool { return w.Bloom.AddsBySource["query"] > 100 })
	if got, want := w.changed("filter_write_on_read"), "flag false to true"; got != want {
		p.Errorf("write-on-read: change %q, want %q", got, want)
	}
	if w.Bloom.AddsBySource["query"] <= w.Bloom.Registrations {
		p.Errorf("write-on-read: %+v, want more adds than registrations", w.Bloom)
	}
	p.fault(http.MethodDelete, "write-on-read")
	w = p.eventually("registrations after the rebuild", func(w wire) bool { return w.Bloom.AddsBySource["register"] > 1 })
	if w.Bloom.AddsBySource["query"] != 0 || w.changed("filter_write_on_read") != "flag true to false" {
		p.Errorf("write-on-read, off: %+v, %s", w.Bloom, w.changed("filter_write_on_read"))
	}
}

func (p *patient) redisPool(well wire) {
	p.fault(http.MethodPost, "redis-pool")
	// The load alone may not fill two connections on a fast machine.
	ctx, stop := context.WithCancel(p.Context())
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			for j := i; ctx.Err() == nil; j += 100 {
				_, _ = p.Service.Redis.Lookup(ctx, load.Name(j%2000)) // the numbers tell what came of it
			}
		})
	}
	w := p.eventually("the pool is used up", func(w wire) bool {
		r := w.Redis.Pool
		return r.Size == 2 && r.InUse == 2 && r.Idle == 0 && r.Pending > 20 && r.Timeouts > 0
	})
	if got, want := w.changed("redis_pool_size"), "config 20 to 2"; got != want {
		p.Errorf("redis-pool: change %q, want %q", got, want)
	}
	if got, want := w.changed("redis_address"), "config "+p.RedisAddr+" to "+w.Redis.Address; got != want || w.Redis.Address == p.RedisAddr {
		p.Errorf("redis-pool: change %q, want %q", got, want)
	}
	stop()
	asking.Wait()
	p.fault(http.MethodDelete, "redis-pool")
	p.healed(well)
}

// redisPoolTaken is the leak, and the pool that waits in blocking commands.
func (p *patient) redisPoolTaken() {
	for _, name := range []string{"redis-pool-leak", "redis-pool-blocked"} {
		before := p.read()
		p.fault(http.MethodPost, name)
		p.eventually("all connections are held and nothing moves", func(w wire) bool {
			r := w.Redis.Pool
			return r.Size == 20 && r.InUse == 20 && r.Idle == 0 && r.Timeouts > before.Redis.Pool.Timeouts
		})
		p.fault(http.MethodDelete, name)
		p.healed(before)
	}
}

// healed waits until Redis answers with the options it had before, without errors.
func (p *patient) healed(before wire) {
	p.Helper()
	w := p.read()
	if w.Redis.Address != before.Redis.Address || w.Redis.Pool.Size != before.Redis.Pool.Size {
		p.Errorf("off: address %s, size %d, want %s, %d", w.Redis.Address, w.Redis.Pool.Size, before.Redis.Address, before.Redis.Pool.Size)
	}
	last := w
	p.eventually("Redis works again", func(w wire) bool {
		quiet := w.Redis.Errors == last.Redis.Errors && w.Redis.Commands > last.Redis.Commands && w.Redis.Pool.Pending == 0
		last = w
		return quiet
	})
}

func (p *patient) redisDown() {
	before := p.read()
	p.fault(http.MethodPost, "redis-down")
	if conn, err := (&net.Dialer{}).DialContext(p.Context(), "tcp", p.RedisAddr); err == nil {
		_ = conn.Close()
		p.Error("redis-down: something still listens")
	}
	w := p.eventually("Redis fails and shards answer", func(w wire) bool {
		return w.Redis.Errors > before.Redis.Errors+20 && w.Shards.Shards[0].Requests > before.Shards.Shards[0].Requests+5
	})
	refused := func(e wireError) bool { return e == wireError{e.Message, "redis", p.RedisAddr, "ECONNREFUSED"} }
	if !w.tells(refused) {
		p.Errorf("redis-down: errors %+v, want a refused connection", w.Errors)
	}
	p.fault(http.MethodDelete, "redis-down")
	p.healed(before)
}

func (p *patient) shardDown(servers bool) {
	before := p.read()
	p.fault(http.MethodPost, "shard-down")
	w := p.eventually("the last shard fails", func(w wire) bool {
		return w.Shards.Shards[1].Errors > before.Shards.Shards[1].Errors+2 && w.tells(func(e wireError) bool {
			closed := e.Code == "ECONNREFUSED"
			if !servers {
				closed = strings.Contains(e.Message, "database is closed")
			}
			return closed && e.Layer == "shard" && e.Target == "shard1"
		})
	})
	lost, kept := p.freeName("lost", 1), p.freeName("kept", 0)
	p.registers(lost, http.StatusServiceUnavailable)
	p.registers(kept, http.StatusCreated)
	p.fault(http.MethodDelete, "shard-down")
	p.registers(lost, http.StatusCreated)
	if after := p.read(); after.Shards.Shards[1].Pool.Acquires < w.Shards.Shards[1].Pool.Acquires {
		p.Errorf("shard-down: acquires went back from %d to %d", w.Shards.Shards[1].Pool.Acquires, after.Shards.Shards[1].Pool.Acquires)
	}
}

func (p *patient) shardPoolLeak() {
	p.fault(http.MethodPost, "shard-pool-leak")
	before := p.read().Shards.Shards[1].Pool
	p.eventually("all connections to the last shard are held and requests give up", func(w wire) bool {
		now := w.Shards.Shards[1].Pool
		return now.InUse == now.Size && now.Acquires == before.Acquires && now.Timeouts > before.Timeouts
	})
	lost := p.freeName("leaked", 1)
	p.registers(lost, http.StatusServiceUnavailable)
	p.fault(http.MethodDelete, "shard-pool-leak")
	p.registers(lost, http.StatusCreated)
}

// freeName is a name with this beginning, the same each time, that the shard given would own.
func (p *patient) freeName(prefix string, owner int) string {
	for i := 0; ; i++ {
		if n := fmt.Sprintf("%s%d-%d", prefix, owner, i); p.Service.Shards.Owner(n) == owner {
			return n
		}
	}
}

func (p *patient) errorBurst() {
	p.fault(http.MethodPost, "error-burst")
	w := p.eventually("follow-ups are refused", func(w wire) bool {
		return w.tells(func(e wireError) bool { return e == wireError{e.Message, "event", "profile-service", "ECONNREFUSED"} })
	})
	if got := w.changed("followup_url"); !strings.HasSuffix(got, " to http://127.0.0.1:9/v1/profiles") {
		p.Errorf("error-burst: change %q", got)
	}
	p.fault(http.MethodDelete, "error-burst")
	last := p.read()
	p.eventually("registrations go on without errors", func(w wire) bool {
		quiet := w.Errors.Recorded == last.Errors.Recorded && w.Bloom.Registrations > last.Bloom.Registrations
		last = w
		return quiet
	})
}
