package playbooks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// sampler is a probe of two samples, as sources make them: x is the second, read
// from now.
func sampler(now *atomic.Int64, checks, under *atomic.Int64) check {
	return func(ctx context.Context) (probes.Evidence, error) {
		checks.Add(1)
		if under.Add(1) > 1 {
			return probes.Evidence{}, errors.New("two checks at a time")
		}
		defer under.Add(-1)
		if now.Load() < 0 {
			return probes.Evidence{Cost: probes.Cost{Queries: 1}}, errors.New("refused")
		}
		begun, wanted := time.Now(), probes.Park(ctx)
		timer := time.NewTimer(probes.Window(ctx, 3*time.Second))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-wanted:
		case <-ctx.Done():
			return probes.Evidence{}, ctx.Err()
		}
		return probes.Evidence{
			Source: "here", At: time.Now(), Window: time.Since(begun),
			Facts: []probes.Fact{{Name: "x", Value: float64(now.Load())}}, Cost: probes.Cost{Queries: 2},
		}, nil
	}
}

// beside runs f beside a recorder of a playbook with one step of two samples and
// one of a single look.
func beside(t *testing.T, now *atomic.Int64, f func(t *testing.T, p *playbooks.Playbook, runner *playbooks.Runner, r *playbooks.Recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var checks, under atomic.Int64
		p := pair(t, sampler(now, &checks, &under), check(fine))
		recorder := playbooks.NewRecorder(p, 10*time.Second, time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			recorder.Run(ctx)
		}()
		runner := &playbooks.Runner{Recorder: func(*playbooks.Playbook) *playbooks.Recorder { return recorder }}
		f(t, p, runner, recorder)
		stop()
		<-over
		// Without the recorder a run goes on as ever.
		if r := runner.Run(t.Context(), p, playbooks.Incident{}); r.Findings[0].Error != "" && now.Load() >= 0 {
			t.Errorf("after the recorder has stopped: %s", r.Findings[0].Error)
		}
	})
}

// TestWarmRun: with a sample at hand a run does not wait, says since when a fact is
// what it is, and never asks a probe beside the recorder.
func TestWarmRun(t *testing.T) {
	var now atomic.Int64
	now.Store(1)
	beside(t, &now, func(t *testing.T, p *playbooks.Playbook, runner *playbooks.Runner, _ *playbooks.Recorder) {
		<-time.After(10 * time.Minute)
		now.Store(5)
		changed := time.Now()
		<-time.After(64 * time.Second)
		start := time.Now()
		r := runner.Run(t.Context(), p, playbooks.Incident{StartedAt: changed})
		if took := time.Since(start); took != 0 {
			t.Errorf("the run took %v, want no wait", took)
		}
		x := r.Findings[0]
		if x.Error != "" || x.Window != 4*time.Second || x.Facts[0].Value != 5 {
			t.Fatalf("got %+v, want the sample that stood by", x)
		}
		onset := x.Facts[0].Onset
		if onset == nil || onset.Before != 1 || onset.After != 5 || onset.At.Before(changed) || onset.At.Sub(changed) > 10*time.Second {
			t.Errorf("onset: got %+v, want from 1 to 5 within a sample after %v", onset, changed)
		}
		if other := r.Findings[1]; other.Error != "" || other.Facts[0].Onset != nil {
			t.Errorf("the other step: got %+v", other)
		}
		<-time.After(7 * time.Second) // a second into the next round but one
		start = time.Now()
		r = runner.Run(t.Context(), p, playbooks.Incident{StartedAt: changed})
		if took := time.Since(start); took != 0 || r.Findings[0].Error != "" {
			t.Errorf("right after a round began: took %v, got %+v", took, r.Findings[0])
		}
	})
}

// TestColdRun: a sample from before the incident is no evidence of it.
func TestColdRun(t *testing.T) {
	var now atomic.Int64
	beside(t, &now, func(t *testing.T, p *playbooks.Playbook, runner *playbooks.Runner, _ *playbooks.Recorder) {
		<-time.After(25 * time.Second)
		r := runner.Run(t.Context(), p, playbooks.Incident{StartedAt: time.Now()})
		if x := r.Findings[0]; x.Error != "" || x.Window != 3*time.Second {
			t.Errorf("got %+v, want two samples of its own", x)
		}
		for range 3 { // one run after the other, within a round
			if r := runner.Run(t.Context(), p, playbooks.Incident{StartedAt: time.Now()}); r.Findings[0].Error != "" {
				t.Errorf("again: %s", r.Findings[0].Error)
			}
		}
	})
}

// TestRecorderGaps: what could not be measured is a gap, which makes no onset, and
// is counted with what it cost.
func TestRecorderGaps(t *testing.T) {
	var now atomic.Int64
	now.Store(3)
	beside(t, &now, func(t *testing.T, p *playbooks.Playbook, runner *playbooks.Runner, recorder *playbooks.Recorder) {
		<-time.After(5 * time.Minute)
		now.Store(-1)
		<-time.After(2 * time.Minute)
		before := recorder.Stats()
		if before.Gaps < 10 || before.Samples < 2*before.Gaps {
			t.Errorf("got %+v, want a gap for each of 12 rounds", before)
		}
		if r := runner.Run(t.Context(), p, playbooks.Incident{}); r.Findings[0].Error != "refused" {
			t.Errorf("while it refuses: got %+v", r.Findings[0])
		}
		now.Store(3)
		<-time.After(time.Minute)
		r := runner.Run(t.Context(), p, playbooks.Incident{})
		if x := r.Findings[0]; x.Error != "" || x.Facts[0].Onset != nil {
			t.Errorf("after a gap: got %+v, want no onset", x)
		}
		if s := recorder.Stats(); s.Cost.Queries == 0 || s.Cost.HTTPRequests == 0 {
			t.Errorf("costs: got %+v", s.Cost)
		}
	})
}

// TestWindow: a run takes the time between samples that it is given.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, checks, under atomic.Int64
		r := playbooks.Runner{Window: time.Second}
		got := r.Run(t.Context(), pair(t, sampler(&now, &checks, &under), check(fine)), playbooks.Incident{})
		if got.Findings[0].Window != time.Second {
			t.Errorf("window: got %v, want 1s", got.Findings[0].Window)
		}
	})
}

// TestOnsetOrders: of two causes as sure as each other, the one that began first
// stands first, and it is no surer for that.
func TestOnsetOrders(t *testing.T) {
	p := load(t, probes.Catalog{"a": kind("x y", check(nothing))}, `
name: two
title: Two
timeout: 1s
steps:
  - {id: a, title: A, probe: a, rules: [{status: critical, when: a.x > 1 || a.y > 1, summary: bad}, {status: ok, summary: fine}]}
causes:
  - {id: first, title: First, layer: a, summary: first, when: [a.x > 1], actions: [look], source: test}
  - {id: second, title: Second, layer: a, summary: second, when: [a.y > 1], actions: [look], source: test}
`)
	at := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	f := func(x, y *probes.Onset, want string) {
		t.Helper()
		m := playbooks.Measurement{Step: "a", Evidence: probes.Evidence{Facts: []probes.Fact{{Name: "x", Value: 2, Onset: x}, {Name: "y", Value: 2, Onset: y}}}}
		r := playbooks.Judge(p, []playbooks.Measurement{m})
		if len(r.Causes) != 2 || r.Causes[0].ID != want || r.Causes[0].Confidence != r.Causes[1].Confidence {
			t.Errorf("got %s, want %s first and both as sure", outline(r), want)
		}
		if err := schema(t)(encode(t, r)); err != nil {
			t.Errorf("report does not fit the schema: %v", err)
		}
		if got, want := string(encode(t, again(t, p, r))), string(encode(t, r)); got != want {
			t.Errorf("replay differs:\n%s", firstDifference(got, want))
		}
	}
	early, late := &probes.Onset{At: at, Before: 0, After: 2}, &probes.Onset{At: at.Add(time.Minute), Before: 1, After: 2}
	f(nil, nil, "first")
	f(early, late, "first")
	f(late, early, "second")
	f(nil, late, "second")
	f(early, nil, "first")
	f(&probes.Onset{Before: 1, After: 2}, late, "second") // no time is no onset
}

// TestAbridged: a run is not given what a check for the record left out, and what is
// not recorded at all is no gap.
func TestAbridged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		costly := func(ctx context.Context) (probes.Evidence, error) {
			select {
			case <-time.After(probes.Window(ctx, 3*time.Second)):
			case <-probes.Park(ctx):
			}
			ev := probes.Evidence{Source: "here", Facts: []probes.Fact{{Name: "x", Value: 2}}}
			if probes.Recording(ctx) {
				ev.Facts[0].Value = 1
			}
			return ev, nil
		}
		never := func(ctx context.Context) (probes.Evidence, error) {
			if probes.Recording(ctx) {
				return probes.Evidence{}, probes.ErrNotRecorded
			}
			return fine(ctx)
		}
		p := pair(t, check(costly), check(never))
		recorder := playbooks.NewRecorder(p, 10*time.Second, time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			recorder.Run(ctx)
		}()
		runner := &playbooks.Runner{Recorder: func(*playbooks.Playbook) *playbooks.Recorder { return recorder }}
		start := time.Now()
		for _, at := range []time.Duration{31 * time.Second, 35 * time.Second} { // right after a round began, and in the midst of one
			<-time.After(time.Until(start.Add(at)))
			r := runner.Run(t.Context(), p, playbooks.Incident{StartedAt: start})
			for i, want := range []float64{2, 1} {
				if f := r.Findings[i]; f.Error != "" || f.Facts[0].Value != want {
					t.Errorf("after %v: got %+v, want all of it", at, f)
				}
			}
		}
		if s := recorder.Stats(); s.Gaps != 0 || s.Samples == 0 {
			t.Errorf("got %+v, want no gap", s)
		}
		stop()
		<-over
	})
}
