package cache

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// queued starts to register n names while the only connection of r is taken, and
// returns what becomes of them once all wait.
func queued(t *testing.T, r *Redis, n int) (end func() []error) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	register := func(i int) { all.Go(func() { errs[i] = r.Claimed(t.Context(), fmt.Sprintf("name%d", i)) }) }
	waiting := func() int {
		r.claims.mu.Lock()
		defer r.claims.mu.Unlock()
		return len(r.claims.queue)
	}
	register(0)
	eventually(t, func() bool { return r.Stats().Pool.Pending == 1 && waiting() == 0 })
	for i := 1; i < n; i++ {
		register(i)
	}
	eventually(t, func() bool { return waiting() == n-1 })
	return func() []error { all.Wait(); return errs }
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(10 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("never happened")
		}
	}
}

func withOneConnection(t *testing.T, timeout time.Duration) (r *Redis, release func() error) {
	t.Helper()
	r, err := NewRedis(RedisOptions{Address: miniredis.RunT(t).Addr(), PoolSize: 1, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.Claimed(t.Context(), "first"); err != nil { // makes Redis know the script
		t.Fatal(err)
	}
	if release, err = r.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, release
}

// TestClaimsAreToldTogether pins that those who come while one is told of share
// commands, and that every name gets there.
func TestClaimsAreToldTogether(t *testing.T) {
	t.Parallel()
	const names = 1 + claimsAtOnce + 10
	r, release := withOneConnection(t, 10*time.Second)
	before := r.Stats().Commands
	end := queued(t, r, names)
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(end()...); err != nil {
		t.Error(err)
	}
	if got := r.Stats().Commands - before; got != 3 {
		t.Errorf("%d names were told of in %d commands, want 3", names, got)
	}
	for i := range names {
		if got, err := r.Lookup(t.Context(), fmt.Sprintf("name%d", i)); got != Taken || err != nil {
			t.Errorf("Lookup(name%d) = %v, %v, want it taken", i, got, err)
		}
	}
}

// TestClaimsWaitNoLongerThanACommand pins that nobody waits for ever behind those
// who wait in vain, and that all of them are owed.
func TestClaimsWaitNoLongerThanACommand(t *testing.T) {
	t.Parallel()
	const names = 1 + 5*claimsAtOnce
	r, release := withOneConnection(t, time.Second)
	before := r.Stats()
	for i, err := range queued(t, r, names)() {
		if !errors.Is(err, ErrNoConnection) {
			t.Errorf("Claimed(name%d) = %v, want %v", i, err, ErrNoConnection)
		}
	}
	after := r.Stats()
	if after.Owed.Claims != names {
		t.Errorf("%d claims are owed, want %d", after.Owed.Claims, names)
	}
	if got := after.Commands - before.Commands; got > 3 {
		t.Errorf("%d commands were tried for those who had waited long enough", got)
	}
	if after.Pool.Pending != 0 {
		t.Errorf("the pool is %+v, want nobody waiting", after.Pool)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}
