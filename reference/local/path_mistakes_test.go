package local_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
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

// follower is a service that wants to know of registrations.
type follower struct {
	url string

	mu    sync.Mutex
	posts map[string][]string // by name: their idempotency keys
}

func newFollower(t *testing.T) *follower {
	t.Helper()
	f := &follower{posts: map[string][]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.posts[body.Name] = append(f.posts[body.Name], r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(server.Close)
	f.url = server.URL + "/v1/profiles"
	return f
}

// inline says whether the registration itself told of the name: it has no event at hand.
func (f *follower) inline(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.posts[name], `"/0"`)
}

func (f *follower) told(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.posts[name]) > 0
}

// syncFollowUps makes registrations wait for the profile service: it has been told when they are answered.
func (p *patient) syncFollowUps(profiles *follower) {
	slow := func() float64 {
		return p.metric(`checker_http_request_duration_seconds_count{endpoint="register"}`) -
			p.metric(`checker_http_request_duration_seconds_bucket{endpoint="register",le="0.25"}`)
	}
	before := slow()
	p.fault(http.MethodPost, "sync-followups")
	n := 0
	registered := func() (name string, ok bool) {
		n++
		name = fmt.Sprintf("waits%d", n)
		return name, p.register(name) == http.StatusCreated
	}
	p.eventually("a follow-up is posted before the registration is answered", func(wire) bool {
		name, ok := registered()
		return ok && profiles.inline(name)
	})
	w := p.eventually("registrations take long", func(wire) bool { return slow() > before+3 })
	if got := w.changed("followups_inline"); got != "flag false to true" {
		p.Errorf("sync-followups: change %q", got)
	}
	p.fault(http.MethodDelete, "sync-followups")
	name := ""
	p.eventually("a registration", func(wire) (ok bool) { name, ok = registered(); return ok })
	w = p.eventually("its event tells of it", func(wire) bool { return profiles.told(name) })
	if got := w.changed("followups_inline"); profiles.inline(name) || got != "flag true to false" {
		p.Errorf("sync-followups, off: a registration still posts its follow-up itself; change %q", got)
	}
}

// workerCollision gives two users one id, again and again, until they meet on a shard.
func (p *patient) workerCollision(servers bool) {
	before := p.metric(`checker_shard_request_errors_total{shard="shard0"}`) + p.metric(`checker_shard_request_errors_total{shard="shard1"}`)
	duplicate := func(e wireError) bool {
		named := strings.Contains(e.Message, "users.user_id")
		if servers {
			named = e.Code == "23505" && strings.Contains(e.Message, "users_pkey")
		}
		return named && e.Layer == "shard"
	}
	if p.read().tells(duplicate) {
		p.Fatal("worker-id-collision: ids met before the fault")
	}
	p.fault(http.MethodPost, "worker-id-collision")
	n := 0
	p.eventually("the index refuses an id that another user has", func(w wire) bool {
		for range 5 {
			n++
			p.register(fmt.Sprintf("colliding%d", n))
		}
		return w.tells(duplicate)
	})
	if got := p.metric(`checker_shard_request_errors_total{shard="shard0"}`) + p.metric(`checker_shard_request_errors_total{shard="shard1"}`); got <= before {
		p.Errorf("worker-id-collision: %.0f errors of shards, as before", got)
	}
	p.fault(http.MethodDelete, "worker-id-collision")
	p.eventually("ids meet no more", func(w wire) bool { // but for registrations that were under way
		for range 20 { // each would meet its twin with a chance of a half
			n++
			p.register(fmt.Sprintf("colliding%d", n))
		}
		return p.read().count(duplicate) == w.count(duplicate)
	})
}

// TestTrustFree lets two users register one name at two instances, of which the second has not heard of the first: Redis,
// where the news are, is down.
func TestTrustFree(t *testing.T) {
	t.Parallel()
	redis, err := local.StartRedis(t.Context(), local.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := local.StartPostgres(t.Context(), local.PostgresOptions{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(redis.Close(), postgres.Close()); err != nil {
			t.Error(err)
		}
	})
	at := make([]*patient, 2)
	for machine := range at {
		at[machine] = &patient{T: t, client: http.Client{Timeout: time.Minute}, Path: startPath(t, local.Options{
			Redis: cache.RedisOptions{Address: redis.Addr()}, ShardDSNs: []string{postgres.DSN(0)}, Machine: machine, Faults: true,
		})}
	}
	first, second := at[0], at[1]
	redis.Stop()
	// duel returns what the second user of a name was told. A filter that may have the name, as after a release, lets the
	// second instance look it up, and remember for half a second that it is free.
	duels := 0
	duel := func() (name string, status int) {
		duels++
		name = fmt.Sprintf("wanted%d", duels)
		second.Service.Filter.Know(name)
		if a, err := second.Service.Check(t.Context(), name); err == nil && a.Taken {
			t.Errorf("%s is taken before anybody registered it", name)
		}
		if first.register(name) != http.StatusCreated { // a machine that stalls
			return name, 0
		}
		return name, second.register(name)
	}
	refused := func() {
		t.Helper()
		second.eventually("the second user is refused", func(wire) bool {
			n, got := duel()
			if got == http.StatusCreated {
				t.Errorf("two were told that %s is theirs", n)
			}
			return got == http.StatusConflict
		})
	}
	refused()
	second.fault(http.MethodPost, "trust-free")
	lied := ""
	w := second.eventually("two are told that the name is theirs", func(wire) bool {
		n, got := duel()
		if got == http.StatusCreated {
			lied = n
		}
		return lied != ""
	})
	if got := w.changed("trust_cached_free"); got != "flag false to true" {
		t.Errorf("change %q", got)
	}
	second.eventually("the lie is recorded", func(w wire) bool {
		return w.tells(func(e wireError) bool {
			return e.Layer == "cache" && e.Target == lied && strings.Contains(e.Message, "acknowledged")
		})
	})
	if errs := second.metric(`checker_errors_total{layer="cache"}`); errs < 1 {
		t.Errorf("%.0f errors of caches in /metrics, want the lie", errs)
	}
	second.fault(http.MethodDelete, "trust-free")
	refused()
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

// TestStateBypass frees names by SQL. No event tells of it and nobody asked the service, but the reclaim job finds names to
// free, and the audit that their becoming available follows from nothing.
func TestStateBypass(t *testing.T) {
	for _, servers := range []bool{false, true} {
		t.Run(fmt.Sprintf("real=%v", servers), func(t *testing.T) {
			t.Parallel()
			p := &patient{
				T: t, client: http.Client{Timeout: time.Minute},
				Path: startPath(t, local.Options{Real: servers, Shards: 2, Names: 1000, Faults: true, CoolDown: 50 * time.Millisecond, ReclaimEvery: 50 * time.Millisecond}),
			}
			p.fault(http.MethodPost, "state-bypass")
			p.eventually("names become available that nobody released", func(wire) bool { return p.metric("checker_names_freed_total") == 40 })
			p.eventually("the audit finds moves that follow from no event", func(w wire) bool {
				return p.metric("checker_events_unexplained_total") == 40 && w.tells(func(e wireError) bool {
					return e.Layer == "event" && e.Target == "audit" && strings.HasSuffix(e.Message, "behind the service: USERNAME_AVAILABLE follows no event")
				})
			})
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
			// A name that goes the way of all names is explained.
			r, err := p.Service.Register(t.Context(), "ordinary")
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Service.Release(t.Context(), "ordinary", r.UserID); err != nil {
				t.Fatal(err)
			}
			p.eventually("it is available again", func(wire) bool {
				return p.metric("checker_names_freed_total") == 41 && p.metric(`checker_events_handled_total{group="audit"}`) >= 40+3
			})
			if got := p.metric("checker_events_unexplained_total"); got != 40 {
				t.Errorf("%.0f moves are unexplained, want 40 as before", got)
			}
		})
	}
}
