package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// countedRuns are runs that take until they are let go; each has a number.
func countedRuns(now func() time.Time) (s *runs, begun *atomic.Int32, release chan struct{}) {
	begun, release = new(atomic.Int32), make(chan struct{})
	s = newRuns(&playbooks.Runner{})
	s.now = now
	s.run = func(ctx context.Context, _ *playbooks.Playbook, in playbooks.Incident) playbooks.Report {
		r := playbooks.Report{ID: strconv.Itoa(int(begun.Add(1)))}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return r.For(in)
	}
	return s, begun, release
}

// TestRunsAreShared: a storm of incidents of one target, some before the run and
// some while it goes on, takes two runs, whatever the number of incidents.
func TestRunsAreShared(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var clock atomic.Int64 // seconds after noon
	now := func() time.Time { return noon.Add(time.Duration(clock.Load()) * time.Second) }
	s, begun, release := countedRuns(now)
	p := &playbooks.Playbook{Name: "path"}
	var wg sync.WaitGroup
	ask := func(id, target string, heard time.Time) {
		wg.Go(func() {
			r, err := s.report(t.Context(), p, playbooks.Incident{ID: id, Target: target, Trigger: "alertmanager"}, s.since(playbooks.Incident{HeardAt: heard}))
			if err != nil || r.Trigger.Incident != id || r.Target != target {
				t.Errorf("%s: got a report on %s for %+v, %v", id, r.Target, r.Trigger, err)
			}
		})
	}
	ask("first", "a", now())
	eventually(t, "the first run begins", time.Minute, func() bool { return begun.Load() == 1 })
	for i := range 200 {
		ask(fmt.Sprint("at once ", i), "a", noon.Add(time.Second))
	}
	for i := range 200 {
		ask(fmt.Sprint("later ", i), "a", noon.Add(5*time.Second))
	}
	clock.Store(9)
	ask("elsewhere", "b", now())
	eventually(t, "the other target does not wait", time.Minute, func() bool { return begun.Load() == 2 })
	close(release)
	wg.Wait()
	if got := begun.Load(); got != 3 {
		t.Errorf("got %d runs, want 3: two of target a, one of target b", got)
	}
	ask("late to be worked on", "a", noon.Add(8*time.Second))
	wg.Wait()
	if got := begun.Load(); got != 3 {
		t.Errorf("got %d runs, want none for what was heard of before the last one", got)
	}
}

// TestRunCutShort: who leads a run and is stopped does not take the others with
// him; who waits and is stopped returns.
func TestRunCutShort(t *testing.T) {
	t.Parallel()
	s, begun, release := countedRuns(time.Now)
	p := &playbooks.Playbook{Name: "path"}
	ctx, cancel := context.WithCancel(t.Context())
	leader, waiter := make(chan error), make(chan error)
	go func() {
		_, err := s.report(ctx, p, playbooks.Incident{ID: "leader"}, time.Time{})
		leader <- err
	}()
	eventually(t, "the run begins", time.Minute, func() bool { return begun.Load() == 1 })
	go func() {
		r, err := s.report(t.Context(), p, playbooks.Incident{ID: "waiter"}, time.Time{})
		if err == nil && r.ID != "2" {
			err = fmt.Errorf("run %s answered, want the second", r.ID)
		}
		waiter <- err
	}()
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.report(gone, p, playbooks.Incident{ID: "gone"}, time.Time{}); err == nil {
		t.Error("who is stopped while he waits: got no error")
	}
	cancel()
	if err := <-leader; err == nil {
		t.Error("the leader: got no error, want that of its context")
	}
	eventually(t, "another one leads", time.Minute, func() bool { return begun.Load() == 2 })
	close(release)
	if err := <-waiter; err != nil {
		t.Errorf("the waiter: %v", err)
	}
}
