package reference_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/name"
)

// start runs a small embedded path.
func start(tb testing.TB, o local.Options) *local.Path {
	tb.Helper()
	p, err := local.Start(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return p
}

// TestRace lets users race for one name: exactly one wins.
func TestRace(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{Shards: 2, Names: 10})
	const names, racers = 40, 8
	for i := range names {
		n := fmt.Sprintf("wanted%d", i)
		var won, taken atomic.Int32
		var owner atomic.Int64
		var race sync.WaitGroup
		gun := make(chan struct{})
		for range racers {
			race.Go(func() {
				<-gun
				r, err := p.Service.Register(t.Context(), n)
				switch {
				case err == nil:
					won.Add(1)
					owner.Store(r.UserID)
				case errors.Is(err, reference.ErrTaken):
					taken.Add(1)
				default:
					t.Errorf("Register(%q): %v", n, err)
				}
				// Whatever came of it, the name has an owner now.
				if a, err := p.Service.Check(t.Context(), n); err != nil || !a.Taken {
					t.Errorf("Check(%q) after Register = %+v, %v, want taken", n, a, err)
				}
			})
		}
		close(gun)
		race.Wait()
		if won.Load() != 1 || taken.Load() != racers-1 {
			t.Errorf("%s: %d won, %d were refused, want 1 and %d", n, won.Load(), taken.Load(), racers-1)
		}
		row, found, err := p.Service.Shards.Lookup(t.Context(), n)
		if err != nil || !found || row.UserID != owner.Load() {
			t.Errorf("row of %s = %+v, %v, %v, want the winner %d", n, row, found, err, owner.Load())
		}
	}
	if s := p.Service.Filter.Stats(); s.Registrations != names || s.Added[bloom.Register] != names || s.Added[bloom.Query] != 0 {
		t.Errorf("filter = %+v, want %d registrations, each added once", s, names)
	}
}

// TestRegistrationOverwritesFree puts every cache into the state of a look-up
// that came before.
func TestRegistrationOverwritesFree(t *testing.T) {
	t.Parallel()
	s := start(t, local.Options{Shards: 1, Names: 10}).Service
	const n = "wanted"
	s.Filter.Add(n, bloom.Query) // so that the caches are asked
	for _, by := range []reference.Layer{reference.Shard, reference.Local} {
		if a, err := s.Check(t.Context(), n); err != nil || a.Taken || a.By != by {
			t.Fatalf("Check = %+v, %v, want free by %s", a, err, by)
		}
	}
	if got, err := s.Redis.Lookup(t.Context(), n); err != nil || got != cache.Free {
		t.Fatalf("Redis has %v, %v, want a free entry", got, err)
	}
	ticket := s.Local.Begin(n)
	if _, err := s.Register(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if taken, known := s.Local.Get(n); !taken || !known {
		t.Errorf("local cache = %v, %v, want taken", taken, known)
	}
	if got, err := s.Redis.Lookup(t.Context(), n); err != nil || got != cache.Taken {
		t.Errorf("Redis has %v, %v, want a taken marker", got, err)
	}
	// A look-up that read the shard before the commit comes late.
	if s.Local.Fill(n, ticket, false) {
		t.Error("the local cache took the answer of a look-up from before the registration")
	}
	if a, err := s.Check(t.Context(), n); err != nil || !a.Taken {
		t.Errorf("Check after a late look-up = %+v, %v, want taken", a, err)
	}
}

// TestConflictRefreshesMarker registers what is taken although no cache knows.
func TestConflictRefreshesMarker(t *testing.T) {
	t.Parallel()
	s := start(t, local.Options{Shards: 1, Names: 10}).Service
	n := load.Name(0) // seeded without a marker
	if got, err := s.Redis.Lookup(t.Context(), n); err != nil || got != cache.Miss {
		t.Fatalf("Redis has %v, %v, want a miss", got, err)
	}
	if _, err := s.Register(t.Context(), n); !errors.Is(err, reference.ErrTaken) {
		t.Fatalf("Register = %v, want %v", err, reference.ErrTaken)
	}
	if got, err := s.Redis.Lookup(t.Context(), n); err != nil || got != cache.Taken {
		t.Errorf("Redis has %v, %v, want a taken marker", got, err)
	}
	if f := s.Filter.Stats(); f.Registrations != 0 || f.Added[bloom.Register] != 0 {
		t.Errorf("filter = %+v, want nothing registered", f)
	}
}

// TestRefused names what neither path accepts.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := start(t, local.Options{Shards: 1}).Service
	for raw, want := range map[string]error{"": name.ErrShort, "zz0canary1": name.ErrReserved, "a b c": name.ErrCharacter, "abc\xff": name.ErrEncoding} {
		if a, err := s.Check(t.Context(), raw); !errors.Is(err, want) {
			t.Errorf("Check(%q) = %+v, %v, want %v", raw, a, err, want)
		}
		if r, err := s.Register(t.Context(), raw); !errors.Is(err, want) {
			t.Errorf("Register(%q) = %+v, %v, want %v", raw, r, err, want)
		}
	}
}

// TestNeverFreeWithoutRedis takes Redis away under many checks of taken names,
// and gives it back with a stale entry. A machine that stalls for a second may
// refuse some; what it answers is true, and it goes on to answer.
func TestNeverFreeWithoutRedis(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{Shards: 2, Names: 2000, LocalCache: 50, Faults: true})
	s := p.Service
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var answered atomic.Int64
	for w := range 8 {
		asking.Go(func() {
			for i := w; ctx.Err() == nil; i += 7 {
				a, err := s.Check(t.Context(), load.Name(i%2000))
				switch {
				case errors.Is(err, reference.ErrUnavailable):
				case err != nil:
					t.Errorf("Check: %v", err)
				case !a.Taken:
					t.Errorf("Check(%q) = %+v, want taken", load.Name(i%2000), a)
				default:
					answered.Add(1)
				}
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		goal := answered.Load() + n
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(time.Minute); answered.Load() < goal; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatal("checks are not answered any more")
			}
		}
	}
	// register registers a name that nobody else wants and checks it, until both
	// are answered.
	names := 0
	register := func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			names++
			r, err := s.Register(t.Context(), fmt.Sprintf("during%d", names))
			var a reference.Answer
			if err == nil {
				a, err = s.Check(t.Context(), r.Name)
			}
			switch {
			case err == nil && a.Taken:
				return
			case err == nil:
				t.Errorf("Check of what was registered without Redis = %+v, want taken", a)
			case !errors.Is(err, reference.ErrUnavailable) || time.Now().After(deadline):
				t.Fatalf("Register without Redis = %+v, %v", r, err)
			}
		}
	}
	for range 3 {
		more(300)
		if _, err := p.Faults.Switch(t.Context(), "redis-down", true); err != nil {
			t.Fatal(err)
		}
		more(300)
		register()
		if _, err := p.Faults.Switch(t.Context(), "redis-down", false); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	asking.Wait()
	if r := s.Redis.Stats(); r.LookupErrors == 0 {
		t.Error("Redis was never missed: the test tests nothing")
	}
}

// TestRegisterDuringRebuild registers while the filter is rebuilt from real
// shards again and again: it misses nobody.
func TestRegisterDuringRebuild(t *testing.T) {
	t.Parallel()
	s := start(t, local.Options{Shards: 2, Names: 1000}).Service
	ctx, cancel := context.WithCancel(t.Context())
	var rebuilding sync.WaitGroup
	rebuilding.Go(func() {
		for ctx.Err() == nil {
			if err := s.RebuildFilter(t.Context(), s.Filter.Params()); err != nil {
				t.Errorf("rebuild: %v", err)
			}
		}
	})
	const writers, each = 4, 60
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if _, err := s.Register(t.Context(), fmt.Sprintf("late%d-%d", w, i)); err != nil {
					t.Errorf("register: %v", err)
				}
			}
		})
	}
	writing.Wait()
	cancel()
	rebuilding.Wait()
	if s.Filter.Generation() < 3 {
		t.Errorf("generation = %d: the test tests nothing", s.Filter.Generation())
	}
	for w := range writers {
		for i := range each {
			if n := fmt.Sprintf("late%d-%d", w, i); !s.Filter.Test(n) {
				t.Errorf("the filter misses %s", n)
			}
		}
	}
	for _, v := range s.Verify(t.Context(), 2000, time.Now()).Shards {
		if v.Err != nil || v.Missing != 0 || v.Sampled == 0 {
			t.Errorf("Verify = %+v, want names and none missing", v)
		}
	}
}

// BenchmarkCheck measures a check by the layer that answers it.
func BenchmarkCheck(b *testing.B) {
	const names = 20_000
	s := start(b, local.Options{Names: names, LocalCache: 100}).Service
	check := func(b *testing.B, n string, by reference.Layer) {
		b.Helper()
		if a, err := s.Check(b.Context(), n); err != nil || a.By != by {
			b.Fatalf("Check(%q) = %+v, %v, want an answer by %s", n, a, err, by)
		}
	}
	b.Run("bloom", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				check(b, "free-name-3", reference.Bloom)
			}
		})
	})
	b.Run("local", func(b *testing.B) {
		s.Local.SetTaken(load.Name(1))
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				check(b, load.Name(1), reference.Local)
			}
		})
	})
	b.Run("redis", func(b *testing.B) {
		b.ReportAllocs()
		var next atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := int(next.Add(1))
				if i%10 == 0 {
					continue // has no marker
				}
				n := load.Name(i % names)
				if _, err := s.Check(b.Context(), n); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
