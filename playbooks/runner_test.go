package playbooks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// pair is a playbook of two steps over the probes a and b.
func pair(t *testing.T, a, b probes.Probe) *playbooks.Playbook {
	t.Helper()
	return load(t, probes.Catalog{"a": kind("x", a), "b": kind("x", b)}, `
name: pair
title: Pair
timeout: 10s
steps:
  - {id: a, title: A, probe: a, timeout: 4s, rules: [{status: critical, when: a.x > 1, summary: "{a.x}"}, {status: ok, summary: fine}]}
  - {id: b, title: B, probe: b, rules: [{status: critical, when: b.x > 1, summary: "{b.x}"}, {status: ok, summary: fine}]}
`)
}

func fine(context.Context) (probes.Evidence, error) {
	return probes.Evidence{Source: "here", Facts: []probes.Fact{{Name: "x", Value: 1}}, Cost: probes.Cost{HTTPRequests: 2, Bytes: 10}}, nil
}

func TestRunFillsTheReport(t *testing.T) {
	clock := time.Date(2026, 11, 30, 16, 0, 0, 0, time.FixedZone("", 3600))
	var ticks atomic.Int64
	r := playbooks.Runner{
		Now:   func() time.Time { return clock.Add(time.Duration(ticks.Add(1)) * time.Second) },
		NewID: func() string { return "r1" },
	}
	got := r.Run(t.Context(), pair(t, check(fine), check(fine)), playbooks.Incident{
		ID: "i1", Trigger: "alertmanager", Title: "P0", Severity: "critical", Target: "checker", StartedAt: clock,
	})
	if got.ID != "r1" || got.Target != "checker" || got.Verdict != playbooks.Healthy || got.DurationMS != 5000 {
		t.Errorf("got id %q, target %q, verdict %q, %d ms; want r1, checker, healthy, 5000", got.ID, got.Target, got.Verdict, got.DurationMS)
	}
	want := playbooks.Trigger{Kind: "alertmanager", Incident: "i1", Title: "P0", Severity: "critical", StartedAt: clock.UTC()}
	if got.Trigger != want {
		t.Errorf("trigger: got %+v, want %+v", got.Trigger, want)
	}
	if got.StartedAt != clock.Add(time.Second).UTC() {
		t.Errorf("started at %s", got.StartedAt)
	}
	if err := schema(t)(encode(t, got)); err != nil {
		t.Errorf("report does not fit the schema: %v", err)
	}
	if got.Cost != (probes.Cost{HTTPRequests: 4, Bytes: 20}) {
		t.Errorf("cost %+v, want that of both steps", got.Cost)
	}
}

func TestZeroRunner(t *testing.T) {
	var r playbooks.Runner
	p := pair(t, check(fine), check(fine))
	one, two := r.Run(t.Context(), p, playbooks.Incident{}), r.Run(t.Context(), p, playbooks.Incident{})
	if one.ID == "" || one.ID == two.ID || one.Trigger.Kind != "manual" {
		t.Errorf("got ids %q and %q, trigger %q", one.ID, two.ID, one.Trigger.Kind)
	}
}

// TestFailForward: whatever one probe does, the other is judged and the report
// leaves in time.
func TestFailForward(t *testing.T) {
	type stubborn = func(ctx context.Context, release <-chan struct{}) (probes.Evidence, error)
	f := func(name string, a stubborn, took time.Duration, reason string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				r := playbooks.Runner{Logger: slog.New(slog.NewTextHandler(&log, nil))}
				release := make(chan struct{})
				defer close(release)
				p := pair(t, check(func(ctx context.Context) (probes.Evidence, error) { return a(ctx, release) }), check(fine))
				start := time.Now()
				got := r.Run(t.Context(), p, playbooks.Incident{})
				if elapsed := time.Since(start); elapsed != took {
					t.Errorf("took %s, want %s", elapsed, took)
				}
				if got.Verdict != playbooks.Inconclusive || got.Findings[1].Status != playbooks.OK {
					t.Errorf("verdict %s, other step %s; want inconclusive, ok", got.Verdict, got.Findings[1].Status)
				}
				if len(got.Gaps) != 1 || got.Gaps[0].Step != "a" || got.Gaps[0].Reason != reason {
					t.Errorf("gaps %+v, want a: %q", got.Gaps, reason)
				}
				if !strings.Contains(log.String(), "step=a") {
					t.Errorf("log %q does not name the step", log.String())
				}
			})
		})
	}
	f("error", func(context.Context, <-chan struct{}) (probes.Evidence, error) {
		return probes.Evidence{}, errors.New("refused")
	}, 0, "refused")
	f("empty error", func(context.Context, <-chan struct{}) (probes.Evidence, error) {
		return probes.Evidence{}, errors.New("")
	}, 0, "the probe failed without saying why")
	f("panic", func(context.Context, <-chan struct{}) (probes.Evidence, error) { panic("boom") }, 0, "the probe panicked: boom")
	f("obeys its deadline", func(ctx context.Context, _ <-chan struct{}) (probes.Evidence, error) {
		<-ctx.Done()
		return probes.Evidence{}, fmt.Errorf("read: %w", ctx.Err())
	}, 4*time.Second, "no answer within 4s: read: context deadline exceeded")
	f("ignores its deadline", func(ctx context.Context, release <-chan struct{}) (probes.Evidence, error) {
		<-release
		return fine(ctx)
	}, 4500*time.Millisecond, "no answer within 4s: the probe did not stop in time and was left behind")
}

// TestLateButWithinGrace: what a probe saw before its deadline still counts.
func TestLateButWithinGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r playbooks.Runner
		got := r.Run(t.Context(), pair(t, check(func(ctx context.Context) (probes.Evidence, error) {
			<-ctx.Done()
			return fine(ctx)
		}), check(fine)), playbooks.Incident{})
		if got.Verdict != playbooks.Healthy {
			t.Errorf("got %s: %s", got.Verdict, got.Summary)
		}
	})
}

// TestHangingProbeIsNotAskedAgain: while a check that was left behind still
// hangs, the next run says so at once; afterwards the probe is asked again.
func TestHangingProbeIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls, inside atomic.Int32
		p := pair(t, check(func(ctx context.Context) (probes.Evidence, error) {
			calls.Add(1)
			if inside.Add(1) > 1 {
				t.Error("two checks of one probe at a time")
			}
			defer inside.Add(-1)
			<-release
			return fine(ctx)
		}), check(fine))
		var r playbooks.Runner
		r.Run(t.Context(), p, playbooks.Incident{})
		start := time.Now()
		got := r.Run(t.Context(), p, playbooks.Incident{})
		if time.Since(start) != 0 || got.Gaps[0].Reason != "an earlier check of this probe still hangs" {
			t.Errorf("second run took %s, gaps %+v; want at once", time.Since(start), got.Gaps)
		}
		close(release)
		synctest.Wait()
		if got := r.Run(t.Context(), p, playbooks.Incident{}); got.Verdict != playbooks.Healthy || calls.Load() != 2 {
			t.Errorf("third run: %s after %d calls; want healthy after 2", got.Verdict, calls.Load())
		}
	})
}

// TestRunsTakeTurns: a run waits for another run's check of the same probe.
func TestRunsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int32
		p := pair(t, check(func(ctx context.Context) (probes.Evidence, error) {
			if inside.Add(1) > 1 {
				t.Error("two checks of one probe at a time")
			}
			defer inside.Add(-1)
			select {
			case <-ctx.Done():
				<-time.After(100 * time.Millisecond)
			case <-time.After(3 * time.Second):
			}
			return fine(ctx)
		}), check(fine))
		var r playbooks.Runner
		verdicts := make(chan string, 3)
		for range 3 {
			go func() { verdicts <- r.Run(t.Context(), p, playbooks.Incident{}).Summary }()
		}
		healthy, busy := 0, 0
		for range 3 {
			switch s := <-verdicts; {
			case strings.HasPrefix(s, "Nothing is wrong:"):
				healthy++
			case strings.Contains(s, "another run's check of this probe took too long"):
				busy++
			}
		}
		// The first takes 3 of 4 seconds, the second what is left, the third none.
		if healthy != 2 || busy != 1 {
			t.Errorf("%d healthy and %d busy, want 2 and 1", healthy, busy)
		}
	})
}

func TestRunHeedsTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obey := check(func(ctx context.Context) (probes.Evidence, error) {
			<-ctx.Done()
			return probes.Evidence{}, ctx.Err()
		})
		var r playbooks.Runner
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		r.Run(ctx, pair(t, obey, obey), playbooks.Incident{})
		if elapsed := time.Since(start); elapsed >= time.Second {
			t.Errorf("took %s, want less than the caller's second", elapsed)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		got := r.Run(ctx, pair(t, obey, obey), playbooks.Incident{})
		if len(got.Gaps) != 2 || got.Gaps[0].Reason != "the run was cancelled: context canceled" {
			t.Errorf("gaps of a cancelled run: %+v", got.Gaps)
		}
	})
}
