package traffic_test

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/traffic"
)

var start = time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)

func addr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*want }

func TestDistinct(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, 10_000, 300_000} {
		w := traffic.New(start)
		for range 2 { // a name that comes again is no other
			for i := range n {
				w.Asked(traffic.Check, fmt.Sprintf("name%d", i), addr(i%5000), start)
			}
		}
		s := w.Stats(start)
		if s.Checks != uint64(2*n) || !near(s.Names, float64(n), 0.08) || !near(s.Sources, float64(min(n, 5000)), 0.08) {
			t.Errorf("%d names: %d checks, %.0f names, %.0f sources", n, s.Checks, s.Names, s.Sources)
		}
	}
}

// TestTop asks from so many addresses that not all can be counted: the bounds of
// those that are told must hold.
func TestTop(t *testing.T) {
	t.Parallel()
	w := traffic.New(start)
	for i := range 40_000 {
		w.Asked(traffic.Check, "a", addr(i), start)
		if i%4 == 0 {
			w.Asked(traffic.Register, "b", addr(1<<20), start)
		}
		if i%8 == 0 {
			w.Asked(traffic.Check, "d", addr(1<<21), start)
		}
	}
	w.Asked(traffic.Check, "c", netip.Addr{}, start)
	s := w.Stats(start)
	if s.Registers != 10_000 || s.Addressed != 55_000 || len(s.Top) < 2 {
		t.Fatalf("%+v", s)
	}
	top := s.Top[0]
	if top.Requests > 10_000 || top.Requests+top.Error < 10_000 || top.Error > 55_000/2000 {
		t.Errorf("top %+v: want bounds about 10,000 and an error of at most a 2,000th", top)
	}
	if len(top.Pseudonym) != 8 || top.Pseudonym == s.Top[1].Pseudonym {
		t.Errorf("pseudonyms %q and %q", top.Pseudonym, s.Top[1].Pseudonym)
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	w := traffic.New(start)
	ask := func(at time.Duration) traffic.Stats {
		w.Asked(traffic.Check, "name", addr(1), start.Add(at))
		w.LookedUp("name", start.Add(at))
		return w.Stats(start.Add(at))
	}
	ask(0)
	if s := ask(31 * time.Second); s.Checks != 2 || s.Lookups != 2 || !near(s.LookedUp, 1, 0.01) || !s.Since.Equal(start) {
		t.Errorf("the window before is a part of it: %+v", s)
	}
	if s := ask(62 * time.Second); s.Checks != 2 || !s.Since.Equal(start.Add(31*time.Second)) {
		t.Errorf("the one before that is not: %+v", s)
	}
	if s := ask(10 * time.Minute); s.Checks != 1 || s.Addressed != 1 || !s.Since.Equal(start.Add(10*time.Minute)) {
		t.Errorf("after a silence: %+v", s)
	}
	if s := ask(9 * time.Minute); s.Checks != 1 {
		t.Errorf("after the clock went back: %+v", s)
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	w := traffic.New(start)
	at := start
	run := func(seconds, perSecond int) traffic.Rate {
		for range seconds {
			for range perSecond {
				w.Asked(traffic.Check, "name", addr(1), at)
			}
			at = at.Add(time.Second)
		}
		return w.Stats(at).Rates[traffic.Check]
	}
	if r := run(8, 10); r.Known || r.Over != 0 {
		t.Errorf("after 8 s: %+v, want nothing known", r)
	}
	if r := run(120, 10); !r.Known || r.PerSecond != 10 || r.Baseline != 10 || r.Over < time.Minute {
		t.Errorf("steady: %+v", r)
	}
	if r := run(40, 50); r.PerSecond != 50 || r.Baseline != 10 {
		t.Errorf("a surge: %+v, want 50 against 10", r)
	}
	if r := run(30*60, 50); r.PerSecond != 50 || r.Baseline != 50 || r.Over > 15*time.Minute {
		t.Errorf("a surge that stays is the baseline: %+v", r)
	}
	if r := w.Stats(at).Rates[traffic.Register]; r.PerSecond != 0 || !r.Known || r.Baseline != 0 || r.Over == 0 {
		t.Errorf("registrations: %+v, want a baseline of none", r)
	}
}

// TestOvertaken: requests tell the time before they wait for each other.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	w := traffic.New(start)
	ask := func(at time.Duration) { w.Asked(traffic.Check, "name", addr(1), start.Add(at)) }
	for at := time.Duration(0); at < 2*time.Minute; at += 100 * time.Millisecond {
		ask(at + time.Second)
		ask(at + time.Second - time.Millisecond) // at the border of a slot or a window, it belongs to the one before
	}
	s := w.Stats(start.Add(121 * time.Second))
	if r := s.Rates[traffic.Check]; !r.Known || math.Abs(r.PerSecond-20) > 0.5 || math.Abs(r.Baseline-20) > 0.5 || r.Over < time.Minute {
		t.Errorf("got %+v, want 20 per second now and before", r)
	}
	if s.Checks < 600 {
		t.Errorf("%d checks in the window, want those of at least half a minute", s.Checks)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	w := traffic.New(start)
	var asking sync.WaitGroup
	for i := range 4 {
		asking.Go(func() {
			for j := range 1000 {
				w.Asked(traffic.Check, strconv.Itoa(j), addr(i), start)
				w.LookedUp("name", start)
				if j%100 == 0 {
					w.Stats(start)
				}
			}
		})
	}
	asking.Wait()
	if s := w.Stats(start); s.Checks != 4000 || s.Lookups != 4000 || !near(s.Names, 1000, 0.08) || len(s.Top) != 4 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkAsked(b *testing.B) {
	w := traffic.New(time.Now())
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("name%d", i)
	}
	now := time.Now()
	for i := 0; b.Loop(); i++ {
		w.Asked(traffic.Check, names[i%1000], addr(i%500), now)
	}
}
