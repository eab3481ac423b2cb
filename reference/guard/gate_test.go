package guard_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/guard"
)

// quiet is a window that does not end within a test.
const quiet = 24 * time.Hour

func ask(t *testing.T, g *guard.Gate) (attempt string, m guard.Marker) {
	t.Helper()
	attempt = rand.Text()
	m, err := g.Ask(t.Context(), attempt)
	if err != nil {
		t.Fatalf("Ask: %v", err)
	}
	return attempt, m
}

// challenged asks n times and returns which of them, from 1, were challenged.
func challenged(t *testing.T, g *guard.Gate, n int) []int {
	t.Helper()
	var which []int
	for i := 1; i <= n; i++ {
		if _, m := ask(t, g); m == guard.Challenged {
			which = append(which, i)
		}
	}
	return which
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestGateSamplesOneInThresholdPlusOne(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		g := newGate(t, s.client(t), guard.GateOptions{Window: quiet})
		if got, want := challenged(t, g, 35), []int{11, 22, 33}; !equal(got, want) {
			t.Errorf("of 35 attempts these were challenged: %v, want %v", got, want)
		}
	})
}

func TestGateWindowPasses(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		c := s.client(t)
		g := newGate(t, c, guard.GateOptions{Window: quiet, Threshold: 3, Prefix: "p:"})
		// shift moves the begin of the window, which is to wait without waiting.
		shift := func(by time.Duration) {
			t.Helper()
			if err := c.IncrBy(t.Context(), "p:{gate}:start", by.Milliseconds()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		f := func(by time.Duration, want []int) {
			t.Helper()
			shift(by)
			if got := challenged(t, g, 4); !equal(got, want) {
				t.Errorf("after %s these were challenged: %v, want %v", by, got, want)
			}
		}
		if got := challenged(t, g, 3); len(got) != 0 {
			t.Errorf("challenged at the threshold: %v", got)
		}
		f(time.Minute-quiet, []int{1}) // a minute is left: the fourth in the window
		f(-time.Minute, []int{4})      // the window has passed: counted anew
		if got := challenged(t, g, 3); len(got) != 0 {
			t.Errorf("challenged at the threshold: %v", got)
		}
		f(2*quiet, []int{4}) // begun by a primary whose clock was ahead
	})
}

// TestGateWindowExactly has the server's clock in its hand: 1000 ms have passed
// after 1000 ms, not after 999.
func TestGateWindowExactly(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	g := newGate(t, clients(redis.Options{Addr: m.Addr()}).client(t), guard.GateOptions{})
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(after time.Duration, n int, want []int) {
		t.Helper()
		m.SetTime(start.Add(after))
		if got := challenged(t, g, n); !equal(got, want) {
			t.Errorf("at %s these were challenged: %v, want %v", after, got, want)
		}
	}
	f(0, 10, nil)
	f(999*time.Millisecond+999*time.Microsecond, 1, []int{1}) // the eleventh
	f(999*time.Millisecond, 10, nil)                          // the counter began again, the window did not
	f(1000*time.Millisecond, 11, []int{11})
	f(1999*time.Millisecond, 10, nil)
	f(2000*time.Millisecond, 10, nil)
	f(1500*time.Millisecond, 10, nil) // the clock was set back: a new window, or it would last until it caught up
}

func TestGateForced(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		g := newGate(t, s.client(t), guard.GateOptions{Window: quiet, Threshold: 2})
		if g.SetForced(true) {
			t.Error("a new gate is forced")
		}
		if got := challenged(t, g, 4); len(got) != 4 {
			t.Errorf("forced gate challenged %v of 4", got)
		}
		if !g.SetForced(false) {
			t.Error("the gate has forgotten that it was forced")
		}
		if got, want := challenged(t, g, 3), []int{3}; !equal(got, want) { // forced attempts were not counted
			t.Errorf("afterwards these were challenged: %v, want %v", got, want)
		}
	})
}

func TestGateMarker(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		c := s.client(t)
		g := newGate(t, c, guard.GateOptions{Window: quiet, Threshold: 1, Prefix: "p:"})
		other := newGate(t, s.client(t), guard.GateOptions{Window: quiet, Threshold: 1, Prefix: "p:"})
		consume := func(g *guard.Gate, attempt string, want guard.Marker) {
			t.Helper()
			if got, err := g.Consume(t.Context(), attempt); err != nil || got != want {
				t.Errorf("Consume(%q) = %d, %v, want %d", attempt, got, err, want)
			}
		}
		clear1, _ := ask(t, g)
		yes, m := ask(t, other)
		if m != guard.Challenged {
			t.Fatal("instances do not count together")
		}
		for _, attempt := range []string{clear1, yes} {
			ttl, err := c.PTTL(t.Context(), "p:{gate}:attempt:"+attempt).Result()
			if err != nil || ttl <= 50*time.Second || ttl > time.Minute {
				t.Errorf("marker lives %s, %v, want 60 s", ttl, err)
			}
		}
		consume(other, clear1, guard.Clear)
		consume(g, clear1, guard.NoMarker)
		consume(g, yes, guard.Challenged)
		consume(other, yes, guard.NoMarker)
		consume(g, rand.Text(), guard.NoMarker)

		// What is no attempt is not asked for: not even a closed client minds.
		closed := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		_ = closed.Close()
		dead := newGate(t, closed, guard.GateOptions{})
		for _, attempt := range []string{"", "x", strings.Repeat("A", 25), strings.Repeat("A", 27), strings.Repeat("a", 26), strings.Repeat("1", 26), "{gate}:count\r\nFLUSHALL\r\nAA", strings.Repeat("A", 1<<20)} {
			consume(dead, attempt, guard.NoMarker)
		}
		if _, err := dead.Consume(t.Context(), rand.Text()); err == nil {
			t.Error("a closed client consumed a marker")
		}

		// Somebody else wrote it.
		alien := rand.Text()
		if err := c.Set(t.Context(), "p:{gate}:attempt:"+alien, "maybe", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Consume(t.Context(), alien); err == nil {
			t.Error("a marker that is neither yes nor no was consumed without an error")
		}
	})
}

func TestGateMarkerExpires(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	g := newGate(t, clients(redis.Options{Addr: m.Addr()}).client(t), guard.GateOptions{})
	f := func(age time.Duration, want guard.Marker) {
		t.Helper()
		attempt, _ := ask(t, g)
		m.FastForward(age)
		if got, err := g.Consume(t.Context(), attempt); err != nil || got != want {
			t.Errorf("after %s: %d, %v, want %d", age, got, err, want)
		}
	}
	f(59999*time.Millisecond, guard.Clear)
	f(60*time.Second, guard.NoMarker)
}

// TestGateManyInstances counts and consumes from many goroutines over several
// clients, while the script is flushed out of the server again and again.
func TestGateManyInstances(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		const instances, goroutines, each = 3, 8, 44
		gates := make([]*guard.Gate, instances)
		for i := range gates {
			gates[i] = newGate(t, s.client(t), guard.GateOptions{Window: quiet})
		}
		admin := s.client(t)
		var yes, clear1, won atomic.Int64
		var group sync.WaitGroup
		for i := range goroutines {
			group.Go(func() {
				for j := range each {
					if j%10 == 5 {
						if err := admin.ScriptFlush(context.Background()).Err(); err != nil {
							t.Errorf("flush: %v", err)
						}
					}
					attempt := rand.Text()
					m, err := gates[(i+j)%instances].Ask(t.Context(), attempt)
					switch {
					case err != nil:
						t.Errorf("Ask: %v", err)
					case m == guard.Challenged:
						yes.Add(1)
					default:
						clear1.Add(1)
					}
					var race sync.WaitGroup
					for _, g := range gates {
						race.Go(func() {
							if got, err := g.Consume(t.Context(), attempt); err != nil {
								t.Errorf("Consume: %v", err)
							} else if got == m {
								won.Add(1)
							} else if got != guard.NoMarker {
								t.Errorf("Consume = %d, want %d or none", got, m)
							}
						})
					}
					race.Wait()
				}
			})
		}
		group.Wait()
		const n = goroutines * each
		if got := yes.Load(); got != n/11 || got+clear1.Load() != n {
			t.Errorf("%d of %d challenged, want %d", got, n, n/11)
		}
		if won.Load() != n {
			t.Errorf("%d markers consumed, want %d", won.Load(), n)
		}
	})
}

func TestGateFailures(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		c := s.client(t)
		g := newGate(t, c, guard.GateOptions{Prefix: "p:"})
		if err := c.HSet(t.Context(), "p:{gate}:start", "a", "b").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Ask(t.Context(), rand.Text()); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("Ask on a spoiled key: %v, want WRONGTYPE", err)
		}
		if err := c.Del(t.Context(), "p:{gate}:start").Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.Set(t.Context(), "p:{gate}:start", "rubbish", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.Set(t.Context(), "p:{gate}:count", "rubbish", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if m, err := g.Ask(t.Context(), rand.Text()); err != nil || m != guard.Clear {
			t.Errorf("Ask after rubbish = %d, %v, want a new window", m, err)
		}

		// A client that hangs up does not get past the gate by that.
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		attempt := rand.Text()
		if m, err := g.Ask(gone, attempt); err != nil || m != guard.Clear {
			t.Errorf("Ask without a client = %d, %v", m, err)
		}
		if m, err := g.Consume(gone, attempt); err != nil || m != guard.Clear {
			t.Errorf("Consume without a client = %d, %v", m, err)
		}
	})
}

// TestGateTimeout asks a Redis that accepts and never answers.
func TestGateTimeout(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := redis.NewClient(&redis.Options{Addr: l.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	g := newGate(t, c, guard.GateOptions{Timeout: 50 * time.Millisecond})
	start := time.Now()
	_, askErr := g.Ask(t.Context(), rand.Text())
	_, consumeErr := g.Consume(t.Context(), rand.Text())
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("two questions with 50 ms each took %s", took)
	}
	var timeout interface{ Timeout() bool }
	for _, err := range []error{askErr, consumeErr} {
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("error is %v, want a timeout", err)
		}
	}
}

func TestGateOptions(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = c.Close() })
	f := func(client guard.Redis, o guard.GateOptions, want string) {
		t.Helper()
		if _, err := guard.NewGate(client, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewGate(%+v) error = %v, want %q in it", o, err, want)
		}
	}
	f(nil, guard.GateOptions{}, "redis is missing")
	f(c, guard.GateOptions{Threshold: -1}, "threshold")
	f(c, guard.GateOptions{Timeout: -1}, "timeout")
	f(c, guard.GateOptions{Window: time.Microsecond}, "window must be whole milliseconds, got 1µs")
	f(c, guard.GateOptions{Window: -time.Second}, "window")
	f(c, guard.GateOptions{MarkerTTL: time.Second + 1}, "life of a marker")
}
