package local_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

func (p *patient) cacheStampede() {
	before := p.read()
	p.fault(http.MethodPost, "cache-stampede")
	w := p.eventually("taken names miss Redis and reach the shards", func(w wire) bool {
		return w.Redis.Misses > before.Redis.Misses+50 && w.Shards.Shards[0].Requests > before.Shards.Shards[0].Requests+20
	})
	if got := w.changed("lookups_alone"); got != "flag false to true" {
		p.Errorf("cache-stampede: change %q", got)
	}
	p.fault(http.MethodDelete, "cache-stampede")
	last := p.read()
	p.eventually("Redis knows the names again", func(w wire) bool {
		hits, misses := w.Redis.Hits["taken"]-last.Redis.Hits["taken"], w.Redis.Misses-last.Redis.Misses
		last = w
		return hits > 2*misses
	})
}

// trustFree lets two be told that one name is theirs.
func (p *patient) trustFree() {
	p.fault(http.MethodPost, "trust-free")
	const n = "two-owners"
	if _, err := p.Service.Shards.Claim(p.Context(), shard.Claim{Name: n, UserID: 1, At: time.Now()}); err != nil {
		p.Fatal(err)
	}
	p.eventually("two are told that the name is theirs", func(wire) bool {
		// As on an instance that has not heard of the other's registration; such an entry lives for half a second.
		p.Service.Local.Fill(n, p.Service.Local.Begin(n), false)
		return p.register(n) == http.StatusCreated
	})
	p.eventually("the lie is recorded", func(w wire) bool {
		return w.tells(func(e wireError) bool {
			return e.Layer == "cache" && e.Target == n && strings.Contains(e.Message, "acknowledged")
		})
	})
	p.fault(http.MethodDelete, "trust-free")
	p.Service.Local.Fill(n, p.Service.Local.Begin(n), false)
	p.registers(n, http.StatusConflict)
}

func (p *patient) clockRollback() {
	p.registers(p.freeName("early", 0), http.StatusCreated)
	p.fault(http.MethodPost, "clock-rollback")
	p.registers(p.freeName("late", 0), http.StatusServiceUnavailable)
	p.eventually("the refusal is recorded", func(w wire) bool {
		return w.tells(func(e wireError) bool { return e.Layer == "api" && e.Target == "ids" })
	})
	if refused, behind := p.metric("checker_ids_refused_total"), p.metric("checker_ids_clock_behind_seconds"); refused < 1 || behind < 60 {
		p.Errorf("clock-rollback: %.0f refused, %.0f s behind", refused, behind)
	}
	p.fault(http.MethodDelete, "clock-rollback")
	p.registers(p.freeName("late", 0), http.StatusCreated)
}

func (p *patient) syncFollowUps() {
	slow := func() float64 {
		return p.metric(`checker_http_request_duration_seconds_count{endpoint="register"}`) -
			p.metric(`checker_http_request_duration_seconds_bucket{endpoint="register",le="0.25"}`)
	}
	before := slow()
	p.fault(http.MethodPost, "sync-followups")
	w := p.eventually("registrations take long", func(wire) bool { return slow() > before+3 })
	if got := w.changed("followups_inline"); got != "flag false to true" {
		p.Errorf("sync-followups: change %q", got)
	}
	p.fault(http.MethodDelete, "sync-followups")
	start := time.Now()
	p.registers("quick-again", http.StatusCreated)
	if took := time.Since(start); took > 5*time.Second {
		p.Errorf("sync-followups, off: a registration took %v", took)
	}
}

// TestLifeOfAName releases a name and sees it available again after its cool-down, on both instances; with the fault
// that nobody is told, the caches go on to say "taken".
func TestLifeOfAName(t *testing.T) {
	t.Parallel()
	p := &patient{
		T: t, client: http.Client{Timeout: time.Minute},
		Path: startPath(t, local.Options{Shards: 2, Faults: true, CoolDown: 50 * time.Millisecond, ReclaimEvery: 50 * time.Millisecond}),
	}
	release := func(n string) {
		t.Helper()
		r, err := p.Service.Register(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Service.Release(t.Context(), n, r.UserID); err != nil {
			t.Fatal(err)
		}
	}
	taken := func(n string) bool {
		t.Helper()
		a, err := p.Service.Check(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return a.Taken
	}
	release("first")
	p.eventually("it is free and the figures say so", func(wire) bool {
		return !taken("first") && p.metric("checker_names_freed_total") == 1 && p.metric("checker_names_freed_invalidated_total") == 1
	})
	p.fault(http.MethodPost, "stale-markers")
	release("second")
	w := p.eventually("it was freed", func(wire) bool { return p.metric("checker_names_freed_total") == 2 })
	if known, err := p.Service.Redis.Lookup(t.Context(), "second"); err != nil || known != cache.Taken || !taken("second") {
		t.Errorf("Redis says %v, %v, want the stale marker", known, err)
	}
	if got := p.metric("checker_names_freed_invalidated_total"); got != 1 || w.changed("release_without_invalidation") != "flag false to true" {
		t.Errorf("%.0f names invalidated, change %q, want 1 and the flag", got, w.changed("release_without_invalidation"))
	}
	p.fault(http.MethodDelete, "stale-markers")
	release("third")
	p.eventually("it is free", func(wire) bool { return !taken("third") })
}

// TestSnapshot keeps the filter between two runs.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	o := local.Options{Shards: 1, Names: 100, Snapshot: t.TempDir() + "/filter", Filter: bloom.Params{Capacity: 1000, Rate: 0.01}}
	for run := range 2 {
		p, err := local.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			_, err = p.Service.Register(t.Context(), "kept")
		}
		if s := p.Service.Filter.Stats(); err != nil || s.Generation != 1 || !p.Service.Filter.Test("kept") || s.Registrations != 1 {
			t.Errorf("run %d: %v, generation %d, %d registrations, want the filter of the first run", run, err, s.Generation, s.Registrations)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStateBypass frees names by SQL. No event tells of it and nobody asked the service, but the caches and the shards
// disagree, and the reclaim job finds names to free.
func TestStateBypass(t *testing.T) {
	for _, servers := range []bool{false, true} {
		t.Run(fmt.Sprintf("real=%v", servers), func(t *testing.T) {
			t.Parallel()
			p := &patient{
				T: t, client: http.Client{Timeout: time.Minute},
				Path: startPath(t, local.Options{Real: servers, Shards: 2, Names: 1000, Faults: true, ReclaimEvery: 50 * time.Millisecond}),
			}
			p.fault(http.MethodPost, "state-bypass")
			p.eventually("names become available that nobody released", func(wire) bool { return p.metric("checker_names_freed_total") == 40 })
			if moves := p.metric(`checker_http_requests_total{code="200",endpoint="move"}`); moves != 0 {
				t.Errorf("%.0f moves were asked for, want none", moves)
			}
			lost := func() (n int) {
				t.Helper()
				for i := range 1000 {
					if _, found, err := p.Service.Shards.Lookup(t.Context(), load.Name(i)); err != nil {
						t.Fatal(err)
					} else if !found {
						n++
					}
				}
				return n
			}
			if n := lost(); n < 39 || n > 40 { // the hot name may be among them
				t.Errorf("%d names have no owner, want 40", n)
			}
			p.fault(http.MethodDelete, "state-bypass")
			if n := lost(); n != 0 {
				t.Errorf("%d names have no owner after they were given back", n)
			}
		})
	}
}
