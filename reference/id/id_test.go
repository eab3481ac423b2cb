package id_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/reference/id"
)

// clock is the bubble's clock with a fault in it.
type clock struct {
	mu    sync.Mutex
	fault time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.fault)
}

func (c *clock) jump(by time.Duration) {
	c.mu.Lock()
	c.fault += by
	c.mu.Unlock()
}

// bubble runs a test in 2026: bubbles begin in 2000, before there are ids.
func bubble(t *testing.T, test func(t *testing.T, c *clock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &clock{fault: time.Until(time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC))})
	})
}

func generator(t *testing.T, machine int, now func() time.Time) *id.Generator {
	t.Helper()
	g, err := id.New(id.Fixed(machine), now)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestIDsGrow jumps, the clock, and looks at every id: what it costs, and in which segment it lies.
func TestIDsGrow(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, c *clock) {
		g := generator(t, 300, c.Now)
		last := int64(0)
		f := func(jump time.Duration, count, spare int, longest time.Duration) {
			t.Helper()
			c.jump(jump)
			before, start := g.Stats(), time.Now()
			for range count {
				n, err := g.Next(t.Context())
				if err != nil {
					t.Fatalf("after a jump of %v: %v", jump, err)
				}
				if n <= last {
					t.Fatalf("after a jump of %v: id %d follows %d", jump, n, last)
				}
				if segment := n >> 12 & 1023; segment != 300 && segment != 300+id.Machines {
					t.Fatalf("segment %d, want 300 or 812", segment)
				}
				last = n
			}
			if took := time.Since(start); took > longest {
				t.Errorf("%d ids after a jump of %v took %v, want at most %v", count, jump, took, longest)
			}
			if got := g.Stats().Spare - before.Spare; got != uint64(spare) {
				t.Errorf("after a jump of %v %d of %d ids are from the spare segment, want %d", jump, got, count, spare)
			}
		}
		f(0, 4096, 0, 0)             // all of one millisecond
		f(0, 1, 0, time.Millisecond) // and one of the next
		f(-time.Millisecond, 5000, 0, 5*time.Millisecond)
		f(-10*time.Millisecond, 1, 0, 11*time.Millisecond)
		f(-10*time.Second, 10_000, 10_000, 0) // nobody waits
		f(-10*time.Second, 10_000, 10_000, 0) // and once more
		f(20*time.Second+5*time.Millisecond, 10, 0, 0)
		f(time.Hour, 10_000, 0, 5*time.Millisecond)
	})
}

// TestIDsRefuseABrokenClock goes an hour forward and back: there are no ids until the clock is right again.
func TestIDsRefuseABrokenClock(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, c *clock) {
		g := generator(t, 1, c.Now)
		next := func() (int64, error) { return g.Next(t.Context()) }
		c.jump(time.Hour)
		last, err := next()
		if err != nil {
			t.Fatal(err)
		}
		c.jump(-time.Hour)
		for range 3 {
			if n, err := next(); !errors.Is(err, id.ErrClock) || !strings.Contains(err.Error(), "1h0m0s behind") {
				t.Fatalf("Next = %d, %v, want ErrClock", n, err)
			}
		}
		if s := g.Stats(); s.Refused != 3 || s.Behind != time.Hour {
			t.Errorf("stats are %+v, want 3 refused, an hour behind", s)
		}
		c.jump(time.Hour - id.MaxBehind)
		n, err := next()
		if err != nil || n <= last {
			t.Errorf("a minute behind: Next = %d, %v, want more than %d", n, err, last)
		}
	})
}

// TestIDsUnderRandomJumps holds four generators under one bad clock to the promise: each grows, none repeats another's.
func TestIDsUnderRandomJumps(t *testing.T) {
	t.Parallel()
	jumps := []time.Duration{0, 0, -10 * time.Second, -time.Millisecond, time.Hour, -time.Hour, time.Millisecond, time.Microsecond, -50 * time.Second, time.Minute}
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T, c *clock) {
			random := rand.New(rand.NewPCG(seed, 1))
			var generators []*id.Generator
			last := make([]int64, 4)
			for machine := range last {
				generators = append(generators, generator(t, machine*170, c.Now))
			}
			seen, given, refused := map[int64]bool{}, 0, 0
			for range 60 {
				c.jump(jumps[random.IntN(len(jumps))])
				for i, g := range generators {
					for range random.IntN(200) * random.IntN(30) {
						n, err := g.Next(t.Context())
						if errors.Is(err, id.ErrClock) {
							refused++
							break
						}
						if err != nil {
							t.Fatal(err)
						}
						if n <= last[i] || seen[n] {
							t.Fatalf("seed %d: id %d follows %d, seen before: %t", seed, n, last[i], seen[n])
						}
						last[i], seen[n] = n, true
						given++
					}
				}
			}
			if given < 1000 || len(seen) != given {
				t.Errorf("seed %d: %d ids, %d different, %d refused", seed, given, len(seen), refused)
			}
		})
	}
}

// TestIDsUnderAStoppedClock never get stuck: a caller waits ten milliseconds, once, then the spare segment takes over.
func TestIDsUnderAStoppedClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		g := generator(t, 0, func() time.Time { return at })
		last := int64(-1)
		start := time.Now()
		for range 4096 + 4096 {
			n, err := g.Next(t.Context())
			if err != nil || n <= last {
				t.Fatalf("Next = %d, %v, want more than %d", n, err, last)
			}
			last = n
		}
		if took := time.Since(start); took < id.MaxWait || took > 4096*id.MaxWait {
			t.Errorf("it took %v", took)
		}
		if s := g.Stats(); s.Spare != 4096 {
			t.Errorf("stats are %+v, want 4096 from the spare segment", s)
		}
	})
}

func TestIDsWaitNoLongerThanTheContext(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, c *clock) {
		g := generator(t, 0, c.Now)
		if _, err := g.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.jump(-8 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		start := time.Now()
		if n, err := g.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next = %d, %v, want DeadlineExceeded", n, err)
		}
		if took := time.Since(start); took != 3*time.Millisecond {
			t.Errorf("Next took %v, want 3ms", took)
		}
		if s := g.Stats(); s.Refused != 1 || s.Waits != 1 {
			t.Errorf("stats are %+v, want 1 wait, 1 refused", s)
		}
	})
}

func TestIDsNeverRepeat(t *testing.T) {
	t.Parallel()
	g := generator(t, 0, time.Now)
	const workers, each = 8, 5000
	ids := make(chan int64, workers*each)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			last := int64(0)
			for range each {
				n, err := g.Next(t.Context())
				if err != nil || n <= last {
					t.Errorf("Next = %d, %v, want more than %d", n, err, last)
				}
				last = n
				ids <- n
			}
		})
	}
	all.Wait()
	close(ids)
	seen := map[int64]bool{}
	for n := range ids {
		if seen[n] {
			t.Errorf("id %d was given out twice", n)
		}
		seen[n] = true
	}
	if got, want := len(seen), workers*each; got != want {
		t.Errorf("%d different ids, want %d", got, want)
	}
}

func TestIDsRefuse(t *testing.T) {
	t.Parallel()
	for _, machine := range []int{-1, 512} {
		if _, err := id.New(id.Fixed(machine), time.Now); err == nil || !strings.Contains(err.Error(), "between 0 and 511") {
			t.Errorf("New(%d) = %v, want an error that names the range", machine, err)
		}
	}
	for _, year := range []int{2023, 2094} {
		at := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		if n, err := generator(t, 0, func() time.Time { return at }).Next(t.Context()); !errors.Is(err, id.ErrClock) {
			t.Errorf("Next() in %d = %d, %v, want ErrClock", year, n, err)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	g, err := id.New(id.Fixed(0), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := g.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
