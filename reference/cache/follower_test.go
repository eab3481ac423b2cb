package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/cache"
)

// pttl asks a Redis how long a key will live; negative for ever.
func pttl(t *testing.T, addr, key string) time.Duration {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close() //nolint:errcheck // it was only asked
	ttl, err := c.PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

// instance is what one checker has of caches.
type instance struct {
	local   *cache.Local
	redis   *cache.Redis
	learned sync.Map // what a filter would hold
	cuts    atomic.Int64

	follower *cache.Follower
}

// shardRows stands for the shards: who is taken.
type shardRows struct{ taken sync.Map }

// newInstance is an instance that does not run yet.
func newInstance(t *testing.T, addr string) *instance {
	t.Helper()
	i := &instance{local: newLocal(t, 1000), redis: open(t, cache.RedisOptions{Address: addr})}
	i.follower = &cache.Follower{
		Redis: i.redis, Local: i.local,
		Taken:  func(name string) { i.learned.Store(name, true) },
		Failed: func(error) { i.cuts.Add(1) },
	}
	return i
}

// start runs follower and upkeep until the test ends.
func (i *instance) start(t *testing.T) {
	t.Helper()
	upkeep := &cache.Upkeep{Redis: i.redis}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { i.follower.Run(ctx) })
	running.Go(func() { upkeep.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func startInstance(t *testing.T, addr string) *instance {
	t.Helper()
	i := newInstance(t, addr)
	i.start(t)
	return i
}

// check asks as the service does.
func (i *instance) check(ctx context.Context, rows *shardRows, name string) (taken bool) {
	if taken, known := i.local.Get(name); known {
		return taken
	}
	ticket := i.local.Begin(name)
	answer, err := i.redis.Lookup(ctx, name)
	if answer != cache.Miss {
		i.local.Fill(name, ticket, answer == cache.Taken)
		return answer == cache.Taken
	}
	var lease cache.Lease
	if err == nil {
		lease, err = i.redis.Lease(ctx, name)
	}
	_, taken = rows.taken.Load(name)
	i.local.Fill(name, ticket, taken)
	if err == nil {
		_, _ = i.redis.Fill(ctx, name, lease, taken)
	}
	return taken
}

// TestThreeInstances registers and releases names on three instances, each of
// which is asked for all of them without a pause, while Redis is restarted and
// frozen. It holds every instance to what the package promises.
func TestThreeInstances(t *testing.T) {
	t.Parallel()
	_, server := realRedis(t)
	instances := []*instance{startInstance(t, server.Addr()), startInstance(t, server.Addr()), startInstance(t, server.Addr())}
	rows := new(shardRows)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	name := func(i int) string { return fmt.Sprintf("name%d", i) }

	const owners = 8
	var asking sync.WaitGroup
	for _, i := range instances {
		asking.Go(func() {
			for ctx.Err() == nil {
				i.check(ctx, rows, name(rand.IntN(owners)))
			}
		})
	}

	// agree waits until every instance says what is true, and returns how long
	// the last one took.
	agree := func(name string, taken bool) time.Duration {
		start := time.Now()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for _, i := range instances {
			for i.check(ctx, rows, name) != taken {
				if time.Since(start) > 30*time.Second {
					t.Errorf("an instance never says that %s is taken = %v", name, taken)
					return time.Since(start)
				}
				<-tick.C
			}
		}
		return time.Since(start)
	}
	var stop atomic.Bool
	var healthy atomic.Bool // Redis works, and has for a while
	healthy.Store(true)
	var slowestFree, slowestTaken, slowestNews atomic.Int64 // nanoseconds
	note := func(slowest *atomic.Int64, d time.Duration) {
		for old := slowest.Load(); int64(d) > old && !slowest.CompareAndSwap(old, int64(d)); old = slowest.Load() {
		}
	}
	var owning sync.WaitGroup
	for o := range owners {
		owning.Go(func() {
			n := name(o)
			for round := 0; !stop.Load() || round < 2; round++ {
				at := instances[rand.IntN(len(instances))]
				rows.taken.Store(n, true)
				_ = at.redis.Claimed(ctx, n)
				at.local.SetTaken(n)
				if !at.check(ctx, rows, n) {
					t.Errorf("%s is free on the instance that has just registered it", n)
				}
				note(&slowestFree, agree(n, true))

				at = instances[rand.IntN(len(instances))]
				before := healthy.Load()
				rows.taken.Delete(n)
				_ = at.redis.Released(ctx, n, time.Now())
				at.local.Forget(n)
				took := agree(n, false)
				if note(&slowestTaken, took); before && healthy.Load() {
					note(&slowestNews, took)
				}
			}
		})
	}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(time.Second)
	healthy.Store(false)
	if err := server.Restart(ctx); err != nil {
		t.Error(err)
	}
	wait(500 * time.Millisecond)
	if err := server.Pause(); err != nil {
		t.Error(err)
	}
	wait(3 * time.Second)
	if err := server.Resume(); err != nil {
		t.Error(err)
	}
	wait(time.Second)
	healthy.Store(true)
	wait(500 * time.Millisecond)
	stop.Store(true)
	owning.Wait()
	cancel()
	asking.Wait()

	// A loaded machine may be late by a second itself.
	const slack = 2 * time.Second
	t.Logf("longest wrong answer: free %s, taken %s, taken with Redis %s",
		time.Duration(slowestFree.Load()), time.Duration(slowestTaken.Load()), time.Duration(slowestNews.Load()))
	if got := time.Duration(slowestFree.Load()); got > cache.FreeTTL+cache.LocalFreeTTL+slack {
		t.Errorf("a registered name was called free for %s", got)
	}
	if got := time.Duration(slowestTaken.Load()); got > cache.MaxStale+slack {
		t.Errorf("a released name was called taken for %s", got)
	}
	for k, i := range instances {
		if i.cuts.Load() == 0 {
			t.Errorf("instance %d never noticed that the news broke off: the test tests nothing", k)
		}
	}
}

// TestNews tells one instance what happens on another, at once and without a
// look-up.
func TestNews(t *testing.T) {
	t.Parallel()
	b, server := realRedis(t)
	i := startInstance(t, server.Addr())
	heard := func(name string) bool { taken, known := i.local.Get(name); return known && taken }
	say := func(name string) {
		t.Helper()
		eventually(t, "the news of "+name, func() bool {
			_ = b.Claimed(t.Context(), name) // again, for the follower may not listen yet
			return heard(name)
		})
		if _, ok := i.learned.Load(name); !ok {
			t.Errorf("the filter did not learn of %s", name)
		}
	}
	say("love")
	b.must(b.Released(t.Context(), "love", time.Now()))
	eventually(t, "the news of the release", func() bool { return !heard("love") })

	say("baby")
	server.Stop() // what was cached is dropped, for nobody tells what happens now
	eventually(t, "the cache is emptied", func() bool { return !heard("baby") && i.cuts.Load() > 0 })
	i.local.SetTaken("meanwhile")
	eventually(t, "the cache is emptied again", func() bool { return !heard("meanwhile") })
	b.must(server.Restart(t.Context()))
	say("cat")
}

// TestNewsFromEarlierClock restarts Redis with a stream that numbers from an
// earlier time: the follower must not wait for that time to come.
func TestNewsFromEarlierClock(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	server.SetTime(time.Now().Add(time.Hour))
	i := startInstance(t, server.Addr())
	hears := func(name string) {
		t.Helper()
		eventually(t, "the news of "+name, func() bool {
			_ = b.Claimed(t.Context(), name)
			_, ok := i.learned.Load(name)
			return ok
		})
	}
	hears("love")
	server.Close()
	server.FlushAll()
	server.SetTime(time.Now().Add(-time.Hour))
	restart(b, server)
	hears("baby")
}

// TestOddNews pins that a follower reads on after what it does not understand.
func TestOddNews(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	i := startInstance(t, server.Addr())
	listens(b, i)
	for _, fields := range [][]string{{"name", "odd", "is", "married"}, {"is", "taken"}, {"what", "ever"}} {
		if _, err := server.XAdd("names:news", "*", fields); err != nil {
			t.Fatal(err)
		}
	}
	b.must(b.Claimed(t.Context(), "baby"))
	eventually(t, "the next news", func() bool { _, ok := i.learned.Load("baby"); return ok })
	if _, ok := i.learned.Load("odd"); ok {
		t.Error("an unknown kind of news counts as a registration")
	}
	if i.cuts.Load() != 0 {
		t.Error("odd news cut the follower off")
	}
}

// hotList is a HotNames.
type hotList []string

func (h hotList) HotNames() []string { return h }

// TestUpkeep sees the loop do what its parts are tested for, report an outage
// once, and follow Redis when it moves.
func TestUpkeep(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	_, next := embedded(t)
	var failures atomic.Int64
	u := &cache.Upkeep{Redis: b.Redis, Hot: hotList{"love"}, Failed: func(err error) {
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("Failed was told %v", err)
		}
		failures.Add(1)
	}}
	b.must(b.MarkTaken(t.Context(), "love"))
	b.must(b.Released(t.Context(), "gone", time.Now()))
	b.must(b.MarkTaken(t.Context(), "gone"))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { u.Run(ctx) })
	defer func() { cancel(); running.Wait() }()
	eventually(t, "the second delete", func() bool { return !server.Exists("name:gone") })
	eventually(t, "the permanent marker", func() bool { return server.TTL("name:love") == 0 })

	server.Close()
	eventually(t, "an outage is told", func() bool { return failures.Load() == 1 })
	b.must(b.Replace(cache.RedisOptions{Address: next.Addr()}))
	b.must(b.Released(t.Context(), "moved", time.Now().Add(-time.Minute)))
	b.must(next.Set("name:moved", "taken"))
	eventually(t, "the second delete on the new Redis", func() bool { return !next.Exists("name:moved") })
	if got := failures.Load(); got != 1 {
		t.Errorf("the outage was told %d times, want once", got)
	}
}
