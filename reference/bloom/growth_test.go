package bloom_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/reference/bloom"
)

// wait moves the clock of the bubble.
func wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of the bubble
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFilter(t, 10_000)
		next := 0
		register := func(n int, every time.Duration) {
			for range n {
				f.Add(fmt.Sprintf("user%d", next), bloom.Register)
				next++
				wait(every)
			}
		}
		read := func() bloom.Growth { return f.Stats().Growth }
		near := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 0.05*want {
				t.Errorf("%s = %g, want about %g", what, got, want)
			}
		}

		register(30, time.Second)
		if g := read(); g.Known || g.TimeToFullKnown {
			t.Errorf("after 30 s: %+v, want nothing known", g)
		}
		register(570, time.Second)
		g := read()
		near("growth", g.PerSecond, 1)
		near("time to full", g.TimeToFull.Seconds(), 9400)
		if !g.Known || !g.TimeToFullKnown {
			t.Errorf("after 10 min: %+v, want both known", g)
		}

		// Names that are there already are no growth, whoever adds them.
		for range 5000 {
			f.Add("user0", bloom.Query)
			f.Learn("user1")
		}
		near("growth after repetitions", read().PerSecond, 1)

		wait(30 * time.Minute)
		near("growth after a pause", read().PerSecond, 600.0/(40*60))
		wait(2 * time.Hour)
		if g := read(); !g.Known || g.PerSecond != 0 || g.TimeToFullKnown {
			t.Errorf("after two quiet hours: %+v, want 0 and no forecast", g)
		}
		register(9, time.Minute)
		if g := read(); !g.Known || g.PerSecond == 0 || g.TimeToFullKnown {
			t.Errorf("after 9 names: %+v, want no forecast from so few", g)
		}
		register(9700, time.Millisecond)
		if g := read(); !g.TimeToFullKnown || g.TimeToFull != 0 {
			t.Errorf("when full: %+v, want 0 to go", g)
		}
		f.Add("another", bloom.Build)
	})
}

// TestGrowthIsNotTheBuild pins that filling a generation is no growth.
func TestGrowthIsNotTheBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, from := newFilter(t, 1000), new(shards)
		from.commit(yesterday(), numbered("user", 500)...)
		wait(5 * time.Minute)
		from.during = func(func(string)) { f.Add("new", bloom.Register) }
		if err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: from}); err != nil {
			t.Fatal(err)
		}
		if g, want := f.Stats().Growth, 1.0/300; !g.Known || math.Abs(g.PerSecond-want) > 1e-9 {
			t.Errorf("growth = %+v, want %g: one name in five minutes", g, want)
		}
	})
}

// TestSaturated pins that a filter with every bit set is full.
func TestSaturated(t *testing.T) {
	t.Parallel()
	f := newFilter(t, 10)
	for _, n := range numbered("user", 1000) {
		f.Add(n, bloom.Query)
	}
	if s := f.Stats(); s.SetBits != s.Bits || !s.Growth.TimeToFullKnown || s.Growth.TimeToFull != 0 {
		t.Errorf("Stats() = %+v, want every bit set and full", s)
	}
}
