package cache_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/local"
)

// bench is one Redis and a cache on it, with shortcuts that end the test.
type bench struct {
	t *testing.T
	*cache.Redis
}

func (b bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) looks(name string, want cache.Answer) {
	b.t.Helper()
	if got, err := b.Lookup(b.t.Context(), name); err != nil || got != want {
		b.t.Errorf("Lookup(%q) = %v, %v, want %v", name, got, err, want)
	}
}

func (b bench) lease(name string) cache.Lease {
	b.t.Helper()
	l, err := b.Lease(b.t.Context(), name)
	b.must(err)
	return l
}

func (b bench) fills(name string, l cache.Lease, taken, want bool) {
	b.t.Helper()
	if got, err := b.Fill(b.t.Context(), name, l, taken); err != nil || got != want {
		b.t.Errorf("Fill(%q, taken %v) = %v, %v, want %v", name, taken, got, err, want)
	}
}

// embedded returns a cache on an embedded Redis, in which time stands still.
func embedded(t *testing.T) (bench, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	return bench{t, open(t, cache.RedisOptions{Address: server.Addr(), Timeout: 10 * time.Second})}, server
}

// realRedis returns a cache on a real Redis.
func realRedis(t *testing.T) (bench, *local.Redis) {
	t.Helper()
	server, err := local.StartRedis(t.Context(), local.RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return bench{t, open(t, cache.RedisOptions{Address: server.Addr(), Timeout: 10 * time.Second})}, server
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	b.looks("love", cache.Miss)
	lease := b.lease("love")
	b.looks("love", cache.Miss) // a lease is no answer
	b.fills("love", lease, false, true)
	b.looks("love", cache.Free)
	if ttl := server.TTL("name:love"); ttl != cache.FreeTTL {
		t.Errorf("TTL of a free entry = %s, want %s", ttl, cache.FreeTTL)
	}
	b.must(b.Claimed(t.Context(), "love")) // a registration overwrites it
	b.looks("love", cache.Taken)
	b.fills("baby", b.lease("baby"), true, true)
	b.looks("baby", cache.Taken)
	ttls := map[time.Duration]bool{}
	for i := range 20 {
		n := fmt.Sprintf("name%d", i)
		switch i % 3 {
		case 0:
			b.must(b.MarkTaken(t.Context(), n))
		case 1:
			b.must(b.Claimed(t.Context(), n))
		default:
			b.fills(n, b.lease(n), true, true)
		}
		ttl := server.TTL("name:" + n)
		if ttl < cache.TakenTTL || ttl > cache.TakenTTL+cache.TakenTTLJitter {
			t.Errorf("TTL of a marker = %s, want %s to %s more", ttl, cache.TakenTTL, cache.TakenTTLJitter)
		}
		ttls[ttl] = true
	}
	if len(ttls) < 10 {
		t.Errorf("20 markers have %d different TTLs: no jitter", len(ttls))
	}
	b.must(server.Set("name:odd", "1"))
	b.looks("odd", cache.Miss)

	b.must(b.MarkAllTaken(t.Context(), func(yield func(string) bool) {
		for i := range 1001 {
			if !yield(fmt.Sprintf("bulk%d", i)) {
				return
			}
		}
	}))
	b.looks("bulk0", cache.Taken)
	b.looks("bulk1000", cache.Taken)

	s := b.Stats()
	if s.HitsTaken != 4 || s.HitsFree != 1 || s.Misses != 3 || s.Lookups() != 8 || s.Errors != 0 || s.LookupErrors != 0 {
		t.Errorf("Stats() = %+v, want 4 taken, 1 free, 3 misses, no error", s)
	}
	if want := uint64(8 + 2 + 2 + 1 + 14 + 6*2 + 1001); s.Commands != want || s.Busy <= 0 {
		t.Errorf("commands = %d, busy %s, want %d and some time", s.Commands, s.Busy, want)
	}
	if s.Pool.Acquires < 30 || s.Pool.InUse != 0 || s.Pool.Idle == 0 || s.Pool.Size != cache.DefaultPoolSize {
		t.Errorf("pool = %+v, want acquires and idle connections", s.Pool)
	}
}

// TestStaleLookups lets a look-up that asked the shard before a change end after
// it, when what the change wrote is gone again. Redis must not take its answer.
func TestStaleLookups(t *testing.T) {
	t.Parallel()
	b, server := realRedis(t)
	evict := func(name string) { // what Redis does when memory is short
		c := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer c.Close() //nolint:errcheck // nothing is left to lose
		b.must(c.Del(t.Context(), "name:"+name).Err())
		b.looks(name, cache.Miss)
	}

	slow := b.lease("love") // the shard says free
	b.must(b.Claimed(t.Context(), "love"))
	b.fills("love", slow, false, false)
	b.looks("love", cache.Taken)
	evict("love")
	b.fills("love", slow, false, false)
	b.looks("love", cache.Miss)

	b.must(b.Claimed(t.Context(), "baby"))
	evict("baby")
	slow = b.lease("baby") // the shard says taken
	b.must(b.Released(t.Context(), "baby", time.Now()))
	b.fills("baby", slow, true, false)
	b.looks("baby", cache.Miss)

	first := b.lease("cat")
	second := b.lease("cat")
	b.fills("cat", second, false, false) // only one look-up at a time may enter
	b.fills("cat", cache.Lease{}, false, false)
	b.fills("cat", first, false, true)
	b.fills("cat", first, true, false) // and only once
	b.looks("cat", cache.Free)

	slow = b.lease("dog")
	b.must(server.Restart(t.Context())) // Redis forgets lease and marker
	eventually(t, "redis is back", func() bool { _, err := b.Lookup(t.Context(), "dog"); return err == nil })
	b.fills("dog", slow, false, false)
	b.looks("dog", cache.Miss)
}

// TestLeaseEnds pins that a look-up that takes too long loses its right, and
// hinders the next one no longer.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	slow := b.lease("love")
	server.FastForward(cache.LeaseTTL)
	quick := b.lease("love")
	b.fills("love", slow, false, false)
	b.fills("love", quick, false, true)
}

// TestDoubleDelete writes a marker without a lease between the two deletes of a
// release, as one that was on its way does.
func TestDoubleDelete(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	now := time.Now()
	b.must(b.Claimed(t.Context(), "love"))
	b.must(b.Released(t.Context(), "love", now))
	b.looks("love", cache.Miss)
	b.must(b.MarkTaken(t.Context(), "love")) // was on its way
	b.must(b.Sweep(t.Context(), now.Add(cache.DeleteAgainAfter-time.Millisecond)))
	b.looks("love", cache.Taken) // it is not time yet

	// The process that released has ended; another one sweeps.
	other := bench{t, open(t, cache.RedisOptions{Address: server.Addr()})}
	other.must(other.Sweep(t.Context(), now.Add(cache.DeleteAgainAfter)))
	b.looks("love", cache.Miss)
	b.must(b.MarkTaken(t.Context(), "love"))
	b.must(b.Sweep(t.Context(), now.Add(time.Hour)))
	b.looks("love", cache.Taken) // deleted again once, not for ever
}

// TestOwedRelease releases while Redis is down.
func TestOwedRelease(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	const names = 500
	name := func(i int) string { return fmt.Sprintf("name%d", i) }
	for i := range names {
		b.must(b.Claimed(t.Context(), name(i)))
	}
	server.Close()
	now := time.Now()
	for i := range names {
		if err := b.Released(t.Context(), name(i), now); err == nil {
			t.Fatal("Released without Redis succeeded")
		}
	}
	if err := b.Sweep(t.Context(), now); err == nil {
		t.Error("Sweep without Redis succeeded")
	}
	b.must(server.Restart())
	eventually(t, "redis is back", func() bool { _, err := b.Lookup(t.Context(), name(0)); return err == nil })
	b.looks(name(0), cache.Taken) // Redis kept it
	b.must(b.Sweep(t.Context(), now))
	for i := range names {
		b.looks(name(i), cache.Miss)
		b.must(b.MarkTaken(t.Context(), name(i)))
	}
	b.must(b.Sweep(t.Context(), now.Add(cache.DeleteAgainAfter))) // more than one script does
	for i := range names {
		b.looks(name(i), cache.Miss)
	}
}

func TestHotNames(t *testing.T) {
	t.Parallel()
	f := func(b bench, ttl func(name string) time.Duration) {
		now := time.Now()
		permanent := func(name string) bool { return ttl(name) <= 0 }
		keep := func(names []string, at time.Time, want int) {
			t.Helper()
			if got, err := b.KeepHot(t.Context(), names, at); err != nil || got != want {
				t.Errorf("KeepHot of %d names = %d, %v, want %d", len(names), got, err, want)
			}
		}
		for _, n := range []string{"love", "baby", "cat"} {
			b.must(b.MarkTaken(t.Context(), n))
		}
		b.fills("free", b.lease("free"), false, true)
		keep([]string{"love", "free", "unknown", "baby"}, now, 2)
		b.looks("love", cache.Taken)
		b.looks("unknown", cache.Miss)
		if !permanent("love") || !permanent("baby") || permanent("cat") || permanent("free") {
			t.Error("not exactly the hot names that are taken have a permanent marker")
		}

		// Another instance finds one of them hot, nobody the other one.
		keep([]string{"baby"}, now.Add(cache.HotFor-time.Second), 2)
		keep(nil, now.Add(cache.HotFor), 1)
		if got := ttl("love"); got < cache.TakenTTL-time.Minute || got > cache.TakenTTL+cache.TakenTTLJitter || !permanent("baby") {
			t.Errorf("TTL of a name that is hot no longer = %s, want an ordinary one", got)
		}
		b.looks("love", cache.Taken)

		// A registration's marker expires; the next round mends that.
		b.must(b.MarkTaken(t.Context(), "baby"))
		keep([]string{"baby"}, now.Add(cache.HotFor), 1)
		if !permanent("baby") {
			t.Error("a hot name lost its permanent marker")
		}
		b.must(b.Released(t.Context(), "baby", now))
		b.looks("baby", cache.Miss)
		keep([]string{"baby"}, now.Add(cache.HotFor), 0)

		var many []string
		for i := range 2 * cache.MaxHot {
			n := fmt.Sprintf("hot%d", i)
			many = append(many, n)
			b.must(b.MarkTaken(t.Context(), n))
		}
		keep(many, now, cache.MaxHot)
		slices.Reverse(many)
		keep(many, now, cache.MaxHot)
		if permanent("hot150") || !permanent("hot0") {
			t.Error("a new hot name pushed out one that is still hot")
		}
		keep(many, now.Add(cache.HotFor), cache.MaxHot)
		if !permanent("hot150") || permanent("hot0") {
			t.Error("a name that is hot no longer keeps the place of a new one")
		}
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		b, server := embedded(t)
		f(b, func(name string) time.Duration { return server.TTL("name:" + name) })
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		b, server := realRedis(t)
		f(b, func(name string) time.Duration { return pttl(t, server.Addr(), "name:"+name) })
	})
}
