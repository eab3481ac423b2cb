package shard_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// released seeds names whose cool-down ends one minute after the other, and as many that are somebody's.
func released(t *testing.T, c *shard.Cluster, n int) {
	t.Helper()
	_, err := c.Seed(t.Context(), func(yield func(shard.Row) bool) {
		for i := range n {
			gone := shard.Row{
				Name: "gone" + strconv.Itoa(i), UserID: int64(i + 1), CreatedAt: epoch,
				State: name.Released, RecyclableAt: epoch.Add(time.Duration(i) * time.Minute),
			}
			if !yield(gone) || !yield(shard.Row{Name: "here" + strconv.Itoa(i), UserID: int64(n + i + 1), CreatedAt: epoch}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReclaim lets three instances reclaim the same names at once: each name is moved once, by one of them, with one event,
// and what is not due stays.
func TestReclaim(t *testing.T) {
	t.Parallel()
	const names, due = 240, 151
	c := embedded(t, 3)
	released(t, c, names)
	now := func() time.Time { return epoch.Add((due - 1) * time.Minute) }
	var mu sync.Mutex
	freed := map[string]int{}
	var total atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			job := shard.Reclaimer{Cluster: c, Batch: 20, Now: now, Freed: func(_ context.Context, n string) {
				mu.Lock()
				freed[n]++
				mu.Unlock()
			}}
			for range 20 {
				moved, err := job.Round(t.Context())
				if err != nil || moved > 3*20 {
					t.Errorf("Round = %d, %v, want at most 20 of each of 3 shards", moved, err)
				}
				total.Add(int64(moved))
			}
		})
	}
	all.Wait()
	if len(freed) != due || total.Load() != due {
		t.Errorf("%d different names were reclaimed in %d moves, want %d", len(freed), total.Load(), due)
	}
	events := 0
	for i := range c.Len() {
		for _, e := range outbox(t, c.Store(i)) {
			if events++; e.Type != "USERNAME_AVAILABLE" || freed[e.Name] != 1 {
				t.Errorf("event %+v, the name was reclaimed %d times", e, freed[e.Name])
			}
		}
	}
	if events != due {
		t.Errorf("%d events, want %d", events, due)
	}
	if _, found, err := c.Lookup(t.Context(), "here0"); !found || err != nil {
		t.Errorf("the name of a user = %t, %v, want it left alone", found, err)
	}
	if won, err := c.Claim(t.Context(), shard.Claim{Name: "gone0", UserID: 1000, At: epoch}); !won || err != nil {
		t.Errorf("Claim of a name that was reclaimed = %t, %v", won, err)
	}
}

// TestReclaimRun runs the job over a backlog, with one shard of two that fails.
func TestReclaimRun(t *testing.T) {
	t.Parallel()
	c := embedded(t, 2)
	released(t, c, 60)
	if err := c.Store(1).Close(); err != nil {
		t.Fatal(err)
	}
	var want int64
	for i := range 60 {
		if c.Owner("gone"+strconv.Itoa(i)) == 0 {
			want++
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var freed, failures atomic.Int64
	var running sync.WaitGroup
	job := shard.Reclaimer{
		Cluster: c, Every: time.Millisecond, Batch: 7,
		Now:    func() time.Time { return epoch.Add(24 * time.Hour) },
		Freed:  func(context.Context, string) { freed.Add(1) },
		Failed: func(error) { failures.Add(1) },
	}
	running.Go(func() { job.Run(ctx) })
	eventually(t, func() bool { return freed.Load() == want && failures.Load() > 0 })
	cancel()
	running.Wait()
	if moved, err := job.Round(ctx); moved != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Round with an ended context = %d, %v", moved, err)
	}
}
