package bloom_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/reference/bloom"
)

// yesterday is when old names were created.
func yesterday() time.Time { return time.Now().Add(-24 * time.Hour) }

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

// TestNoFalseNegative adds from many goroutines while the filter is rebuilt
// again and again, and then misses nothing.
func TestNoFalseNegative(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 3000
	f, from := newFilter(t, writers*each), new(shards)
	var adding sync.WaitGroup
	for w := range writers {
		adding.Go(func() {
			for i := range each {
				n := fmt.Sprintf("w%d-%d", w, i)
				from.commit(yesterday(), n)
				f.CountRegistration()
				f.Add(n, bloom.Register)
				if !f.Test(n) {
					t.Errorf("Test(%q) = false right after Add", n)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { adding.Wait(); close(done) }()
	rebuilds := 0
	for running := true; running; rebuilds++ {
		select {
		case <-done:
			running = false
		default:
		}
		err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: from})
		// A name is in the list a moment before it is in the filter, and the
		// test gives it no time: the verification may meet such a one.
		if err != nil && !errors.Is(err, bloom.ErrMissing) {
			t.Fatal(err)
		}
		if err != nil {
			rebuilds--
		}
	}
	for _, r := range from.rows {
		if !f.Test(r.name) {
			t.Errorf("Test(%q) = false after %d rebuilds", r.name, rebuilds)
		}
	}
	if got, want := f.Stats().Generation, uint64(rebuilds); got != want {
		t.Errorf("generation = %d, want %d", got, want)
	}
}

// TestRefill waits for a rebuild to another size, and does not undo it.
func TestRefill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, from := newFilter(t, 100), new(shards)
		from.commit(yesterday(), "one")
		refilled := make(chan error, 1)
		from.during = func(func(string)) {
			from.during = nil
			go func() { refilled <- f.Rebuild(t.Context(), bloom.Plan{Refill: true, From: from}) }()
			synctest.Wait()
		}
		if err := f.Rebuild(t.Context(), bloom.Plan{Params: bloom.Params{Capacity: 200, Rate: 0.02}, From: from}); err != nil {
			t.Fatal(err)
		}
		if err := <-refilled; err != nil {
			t.Fatal(err)
		}
		if p := f.Params(); p.Capacity != 200 || f.Generation() != 2 || !f.Test("one") {
			t.Errorf("generation %d is for %d names, want generation 2 for 200", f.Generation(), p.Capacity)
		}
	})
}

func TestRebuildAccounts(t *testing.T) {
	t.Parallel()
	f, from := newFilter(t, 100), new(shards)
	f.Add("old", bloom.Query)
	from.commit(yesterday(), "one", "two")
	from.during = func(func(string)) {
		f.Add("three", bloom.Register) // registered while the rebuild goes on
		f.CountRegistration()
		f.Learn("four") // and on another instance
		f.Learn("four")
		if f.Test("one") {
			t.Error(`Test("one") = true before the switch`)
		}
	}
	if err := f.Rebuild(t.Context(), bloom.Plan{Params: bloom.Params{Capacity: 200, Rate: 0.02}, From: from}); err != nil {
		t.Fatal(err)
	}
	f.Add("asked", bloom.Query)
	s := f.Stats()
	if s.Generation != 1 || s.Params.Capacity != 200 || s.Params.Rate != 0.02 {
		t.Errorf("Stats() = %+v, want generation 1 for 200 names at 0.02", s)
	}
	if got, want := fmt.Sprint(s.Added, s.NamesAdded(), s.Registrations), "[2 2 1] 5 2"; got != want {
		t.Errorf("added, sum, registrations = %s, want %s", got, want)
	}
	if f.Test("old") || !f.Test("one") || !f.Test("three") || !f.Test("four") || !f.Test("asked") {
		t.Error("the new generation holds something else than what was built, registered and asked")
	}
}

// TestRebuildRefused gives a rebuild every reason not to switch.
func TestRebuildRefused(t *testing.T) {
	t.Parallel()
	f, good := newFilter(t, 1000), new(shards)
	good.commit(yesterday(), numbered("kept", 900)...)
	if err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: good}); err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, want error, p bloom.Plan) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if errors.Is(want, context.Canceled) {
			p.From.(*shards).during = func(func(string)) { cancel() }
		}
		if err := f.Rebuild(ctx, p); !errors.Is(err, want) {
			t.Errorf("%s: Rebuild = %v, want %v", what, err, want)
		}
		f.Add("later "+what, bloom.Register)
		if s := f.Stats(); s.Generation != 1 || !f.Test("kept0") || f.Test("half") || !f.Test("later "+what) {
			t.Errorf("%s: after a refused rebuild: %+v", what, s)
		}
		if p, on := f.Progress(); on {
			t.Errorf("%s: Progress after the rebuild = %+v", what, p)
		}
	}
	bad := func() *shards {
		s := new(shards)
		s.commit(yesterday(), append(numbered("kept", 900), "half")...)
		return s
	}
	broken := errors.New("shard1: timeout")
	failing, losing, cancelled := bad(), bad(), bad()
	failing.fail, losing.skip = broken, 300
	refuse("a shard fails", broken, bloom.Plan{Params: f.Params(), From: failing})
	refuse("names get lost", bloom.ErrMissing, bloom.Plan{Params: f.Params(), From: losing})
	refuse("names get lost and any rate goes", bloom.ErrMissing, bloom.Plan{Params: f.Params(), From: losing, AnyRate: true})
	refuse("it is too small", bloom.ErrRate, bloom.Plan{Params: bloom.Params{Capacity: 300, Rate: 0.01}, From: bad()})
	refuse("cancelled", context.Canceled, bloom.Plan{Params: f.Params(), From: cancelled})
	if err := f.Rebuild(t.Context(), bloom.Plan{}); err == nil {
		t.Error("Rebuild with impossible parameters succeeded")
	}
	if err := f.Rebuild(t.Context(), bloom.Plan{Params: bloom.Params{Capacity: 300, Rate: 0.01}, From: bad(), AnyRate: true}); err != nil {
		t.Errorf("Rebuild at any rate: %v", err)
	}
}

// TestFullFilterIsAccepted rebuilds small filters for exactly as many names as
// they are made for: luck must not refuse them.
func TestFullFilterIsAccepted(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 10, 100, 1000, 10_000} {
		for try := range 20 {
			f, from := newFilter(t, uint64(n)), new(shards)
			from.commit(yesterday(), numbered(fmt.Sprintf("try%d-", try), n)...)
			for range 2 { // the first one is accepted at any rate
				if err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: from}); err != nil {
					t.Errorf("%d names, try %d: %v", n, try, err)
				}
			}
		}
	}
}

// TestFirstBuildMayBeTooSmall: what it replaces calls every name free.
func TestFirstBuildMayBeTooSmall(t *testing.T) {
	t.Parallel()
	f, from := newFilter(t, 10), new(shards)
	from.commit(yesterday(), numbered("user", 1000)...)
	if err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: from}); err != nil || f.Generation() != 1 {
		t.Errorf("first Rebuild = %v, generation %d, want it accepted", err, f.Generation())
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, from := newFilter(t, 1000), new(shards)
		if p, on := f.Progress(); on {
			t.Errorf("Progress without a rebuild = %+v", p)
		}
		from.commit(yesterday(), numbered("user", 400)...)
		var seen bloom.Progress
		from.during = func(func(string)) { seen, _ = f.Progress() }
		rebuild := func() {
			t.Helper()
			if err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: from}); err != nil {
				t.Fatal(err)
			}
		}
		rebuild()
		if seen.Generation != 1 || seen.Names != 400 || seen.Expected != 0 || seen.RemainingKnown {
			t.Errorf("Progress of the first build = %+v, want 400 of nobody knows", seen)
		}
		for range 100 {
			f.Add("again", bloom.Register)
		}
		from.during = func(func(string)) {
			time.Sleep(8 * time.Second) //nolint:forbidigo // the clock of the bubble
			seen, _ = f.Progress()
		}
		rebuild()
		if seen.Names != 400 || seen.Expected != 500 || !seen.RemainingKnown || seen.Remaining != 2*time.Second {
			t.Errorf("Progress = %+v, want 400 of 500 and 2 s to go", seen)
		}
	})
}

// TestRebuildsWaitInTurn lets the wait for another rebuild be cancelled.
func TestRebuildsWaitInTurn(t *testing.T) {
	t.Parallel()
	f, from := newFilter(t, 100), new(shards)
	ctx, cancel := context.WithCancel(t.Context())
	from.during = func(func(string)) {
		cancel()
		if err := f.Rebuild(ctx, bloom.Plan{Params: f.Params(), From: new(shards)}); !errors.Is(err, context.Canceled) {
			t.Errorf("second Rebuild = %v, want %v", err, context.Canceled)
		}
	}
	if err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: from}); err != nil {
		t.Error(err)
	}
}
