package cache_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/regpath/diagnose/reference/cache"
)

// listens waits until the instance hears of news.
func listens(b bench, i *instance) {
	b.t.Helper()
	eventually(b.t, "the follower listens", func() bool {
		_ = b.Claimed(b.t.Context(), "first")
		_, ok := i.learned.Load("first")
		return ok
	})
}

// restart brings back a server that was closed, with what it held.
func restart(b bench, server *miniredis.Miniredis) {
	b.t.Helper()
	server.Ctx, server.CtxCancel = context.WithCancel(context.Background()) // Close ended it for good
	b.must(server.Restart())
}

// TestOwedClaims registers while Redis is down. The filters of other instances
// hear of it when it is back, the caches do not: the name may have been released
// since.
func TestOwedClaims(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	other := startInstance(t, server.Addr())
	listens(b, other)
	const names = 500 // more than one batch
	name := func(i int) string { return fmt.Sprintf("name%d", i) }
	server.Close()
	for i := range names {
		if err := b.Claimed(t.Context(), name(i)); err == nil {
			t.Fatal("Claimed without Redis succeeded")
		}
	}
	if err := b.Sweep(t.Context(), time.Now()); err == nil {
		t.Error("Sweep without Redis succeeded")
	}
	if got := b.Stats().Owed; got != (cache.Owed{Claims: names}) {
		t.Errorf("owed %+v, want %d claims", got, names)
	}
	restart(b, server)
	eventually(t, "what is owed is told", func() bool { return b.Sweep(t.Context(), time.Now()) == nil })
	eventually(t, "the other filter knows all", func() bool {
		for i := range names {
			if _, ok := other.learned.Load(name(i)); !ok {
				return false
			}
		}
		return true
	})
	if _, known := other.local.Get(name(0)); known {
		t.Error("the cache of another instance holds a name that may have been released since")
	}
	if got := b.Stats().Owed; got != (cache.Owed{}) {
		t.Errorf("owed %+v, want nothing", got)
	}
}

// TestLostClaims registers more names than are kept while Redis is down. Every
// instance is told that there were some.
func TestLostClaims(t *testing.T) {
	t.Parallel()
	b, server := embedded(t)
	lost := new(atomic.Int64)
	i := newInstance(t, server.Addr())
	i.follower.Lost = func() { lost.Add(1) }
	i.start(t)
	listens(b, i)
	server.Close()
	const most = 10_000
	for i := range most + 1 {
		if err := b.Claimed(t.Context(), fmt.Sprintf("name%d", i)); err == nil {
			t.Fatal("Claimed without Redis succeeded")
		}
	}
	if got := b.Stats().Owed.Claims; got != most {
		t.Errorf("%d claims are kept, want %d", got, most)
	}
	restart(b, server)
	eventually(t, "what is owed is told", func() bool { return b.Sweep(t.Context(), time.Now()) == nil })
	eventually(t, "the loss is told", func() bool { return lost.Load() == 1 })
	b.must(b.Sweep(t.Context(), time.Now()))
	b.must(b.Claimed(t.Context(), "last"))
	eventually(t, "the next news", func() bool { _, ok := i.learned.Load("last"); return ok })
	if got := lost.Load(); got != 1 {
		t.Errorf("the loss was told %d times, want once", got)
	}
}
