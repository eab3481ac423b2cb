package playbooks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
)

// Recorder is the flight recorder: it runs the steps of a playbook all the time,
// so that at alert time a first sample and the past are there at once.
//
// A check that takes two samples has its first one when a round begins and then
// stands by. At the end of the round it takes the second, and its facts go into
// the history. When a run wants the step before that, the second sample is taken
// at once and the run gets the evidence; right after the beginning of a round it gets
// that of the round before, unless that left out what is not cheap. A run and the
// recorder never ask a probe at the same time, so that they share its connection.
type Recorder struct {
	steps   map[*Step]*desk
	every   time.Duration
	history *probes.History
	runner  Runner
	stopped chan struct{}

	mu    sync.Mutex
	round map[string]float64
	stats RecorderStats
}

// RecorderStats is what a recorder did.
type RecorderStats struct {
	// Samples counts the checks for the record, Gaps those of them that failed.
	Samples, Gaps int
	// Last is when a check last measured something; zero if none has.
	Last time.Time
	// Cost is what they did to the targets.
	Cost probes.Cost
}

// Plus returns the sum of both, and the later of both times.
func (s RecorderStats) Plus(t RecorderStats) RecorderStats {
	last := s.Last
	if t.Last.After(last) {
		last = t.Last
	}
	return RecorderStats{Samples: s.Samples + t.Samples, Gaps: s.Gaps + t.Gaps, Last: last, Cost: s.Cost.Plus(t.Cost)}
}

// recent is how old the evidence of a round may be to serve a run: as old as the
// first sample of a run that waits.
const recent = 3 * time.Second

// desk is where runs ask for a step.
type desk struct {
	step    *Step
	demands chan demand
	// last is the outcome of the last check that stood by, with its first sample at
	// first, which ended at ended.
	last         outcome
	first, ended time.Time
}

// serve answers a demand from the last check if that is recent enough.
func (d *desk) serve(w demand) bool {
	if d.first.IsZero() || d.first.Before(w.since) || d.last.err != nil || time.Since(d.ended) > recent {
		return false
	}
	w.answer <- d.last
	return true
}

// demand is a run that wants a step's evidence.
type demand struct {
	since  time.Time
	look   func() outcome
	answer chan outcome
}

// NewRecorder returns a recorder of the playbook's steps that takes a sample at
// every such interval and remembers those of the time keep.
func NewRecorder(p *Playbook, every, keep time.Duration) *Recorder {
	r := &Recorder{
		steps: make(map[*Step]*desk, len(p.Steps)), every: every, stopped: make(chan struct{}),
		history: probes.NewHistory(max(1, int(keep/every))), round: map[string]float64{},
	}
	for _, s := range p.Steps {
		r.steps[s] = &desk{step: s, demands: make(chan demand)}
	}
	return r
}

// Run records until ctx ends. It must be called once.
func (r *Recorder) Run(ctx context.Context) {
	defer close(r.stopped)
	start := time.Now()
	var wg sync.WaitGroup
	for _, d := range r.steps {
		wg.Go(func() { r.attend(ctx, start, d) })
	}
	wg.Go(func() { r.keep(ctx, start) })
	wg.Wait()
}

// Stats returns what the recorder did so far.
func (r *Recorder) Stats() RecorderStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// end returns the end of the round that is under way at now; rounds begin at start
// and are as long as r.every, by the monotonic clock.
func (r *Recorder) end(start, now time.Time) time.Time {
	return start.Add(now.Sub(start).Truncate(r.every) + r.every)
}

// keep takes down the facts of every round a little after it has ended.
func (r *Recorder) keep(ctx context.Context, start time.Time) {
	timer := time.NewTimer(0)
	<-timer.C
	for {
		next := r.end(start, time.Now()).Add(r.every / 2)
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		r.history.Record(next.Add(-r.every/2), r.round)
		r.round = make(map[string]float64, len(r.round))
		r.mu.Unlock()
	}
}

// attend checks one step round after round and serves the runs that want it.
func (r *Recorder) attend(ctx context.Context, start time.Time, d *desk) {
	for ctx.Err() == nil {
		end := r.end(start, time.Now())
		standby := probes.NewStandby(end)
		done := make(chan outcome, 1)
		go func() {
			limit, cancel := context.WithDeadline(ctx, end.Add(d.step.Timeout))
			defer cancel()
			done <- r.runner.check(standby.Context(limit), d.step, d.step.Timeout/20)
		}()
		var waiting []demand
		var o outcome
		for over := false; !over; {
			select {
			case w := <-d.demands:
				if !d.serve(w) {
					waiting = append(waiting, w)
					standby.Release()
				}
			case o = <-done:
				over = true
			}
		}
		r.record(d.step, o)
		d.last, d.first, d.ended = o, standby.Parked(), time.Now()
		if standby.Abridged() {
			d.first = time.Time{} // a run wants all of it
		}
		for _, w := range waiting {
			if !d.serve(w) {
				w.answer <- w.look()
			}
		}
		r.idle(ctx, end, d)
	}
}

// idle serves runs until the round ends.
func (r *Recorder) idle(ctx context.Context, end time.Time, d *desk) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	for {
		select {
		case w := <-d.demands:
			if !d.serve(w) {
				w.answer <- w.look()
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// record keeps the facts of a check for the end of the round.
func (r *Recorder) record(step *Step, o outcome) {
	if errors.Is(o.err, probes.ErrNotRecorded) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Samples++
	r.stats.Cost = r.stats.Cost.Plus(o.evidence.Cost)
	if o.err != nil {
		r.stats.Gaps++
		return
	}
	r.stats.Last = time.Now()
	for _, f := range o.evidence.Facts {
		if finite(f.Value) && !impossible(f, step.Facts) {
			r.round[step.ID+"."+f.Name] = f.Value
		}
	}
}

// take returns the evidence of a step for an incident that began at since, with
// the onset of the facts that moved. It comes from the check that stands by, if
// that had its first sample after since, and else from look. A nil recorder only
// looks.
func (r *Recorder) take(ctx context.Context, step *Step, grace time.Duration, since time.Time, look func() outcome) outcome {
	if r == nil || r.steps[step] == nil {
		return look()
	}
	w := demand{since: since, look: look, answer: make(chan outcome, 1)}
	select {
	case r.steps[step].demands <- w:
	case <-r.stopped:
		return look()
	case <-ctx.Done():
		return outcome{err: errLate}
	}
	o, late := outcome{err: errLate}, time.NewTimer(grace)
	late.Stop()
	defer late.Stop()
	select {
	case o = <-w.answer:
	case <-ctx.Done():
		late.Reset(grace)
		select {
		case o = <-w.answer:
		case <-late.C:
		}
	}
	o.evidence.Facts = r.withOnsets(step, o.evidence.Facts)
	return o
}

// withOnsets returns the facts with since when they are as they are.
func (r *Recorder) withOnsets(step *Step, facts []probes.Fact) []probes.Fact {
	now := time.Now()
	out := make([]probes.Fact, len(facts))
	for i, f := range facts {
		if finite(f.Value) {
			f.Onset = r.history.Onset(step.ID+"."+f.Name, f.Value, now)
		}
		out[i] = f
	}
	return out
}
