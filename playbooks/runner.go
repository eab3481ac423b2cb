package playbooks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
)

// Runner runs playbooks. The zero value is ready for use.
type Runner struct {
	// Logger is told of steps that fail; nil for silence.
	Logger *slog.Logger
	// Now is the clock of the report's times; nil for [time.Now].
	Now func() time.Time
	// NewID names a report; nil for a random name.
	NewID func() string
	// Window is the time between the two samples of a probe; 0 for what the
	// playbook says. A step's own time still bounds it.
	Window time.Duration
	// Recorder returns the recorder of a playbook, which has samples at hand and knows
	// what moved, or nil; a nil Recorder is none for all.
	Recorder func(*Playbook) *Recorder
	// Progress is told what a run of more than a second has found so far, at most once
	// a second, in playbook order; nil for nobody. It does not hold the run up.
	Progress func(in Incident, soFar []Finding)
}

// Run runs every step of p at once and judges what they saw. It does not fail:
// a step that errs, hangs or panics is a gap in the report. It returns within
// p.Timeout, and before the deadline of ctx if that is earlier, even if a
// probe ignores its context; such a probe is left behind, what it returns late
// is dropped, and until then it is not asked again.
func (r *Runner) Run(ctx context.Context, p *Playbook, in Incident) Report {
	start := r.now()
	var tell func([]Finding)
	if r.Progress != nil {
		tell = func(soFar []Finding) { r.Progress(in, soFar) }
	}
	f := follow(p, tell)
	measured := r.measureAll(ctx, p, in.StartedAt, f)
	f.end()
	report := Judge(p, measured)
	report.ID = r.newID()
	report.StartedAt = start.UTC()
	report.DurationMS = r.now().Sub(start).Milliseconds()
	return report.For(in)
}

// For returns the report as the answer to in: one run may answer several
// incidents of one target.
func (r Report) For(in Incident) Report {
	r.Target = valid(in.Target)
	r.Trigger = Trigger{
		Kind: valid(in.Trigger), Incident: valid(in.ID), Title: valid(in.Title), Severity: valid(in.Severity), StartedAt: in.StartedAt.UTC(),
	}
	if r.Trigger.Kind == "" {
		r.Trigger.Kind = "manual"
	}
	return r
}

// Measure runs every step of p at once and returns what they saw, in playbook
// order, within the bounds that Run keeps.
func (r *Runner) Measure(ctx context.Context, p *Playbook) []Measurement {
	return r.measureAll(ctx, p, time.Time{}, nil)
}

// measureAll measures an incident that began at since, which may be zero: what was
// sampled before is no evidence of it.
func (r *Runner) measureAll(ctx context.Context, p *Playbook, since time.Time, f *progress) []Measurement {
	if r.Window > 0 {
		ctx = probes.WithWindow(ctx, r.Window)
	}
	budget := p.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline))
	}
	// The last twentieth of the budget is for judging, the one before it for
	// probes to notice that their time is up.
	grace := budget / 20
	ms := make([]Measurement, len(p.Steps))
	var recorder *Recorder
	if r.Recorder != nil {
		recorder = r.Recorder(p)
	}
	var wg sync.WaitGroup
	for i, step := range p.Steps {
		wg.Go(func() {
			ms[i] = r.measure(ctx, step, min(step.Timeout, budget-2*grace), grace, since, recorder)
			f.add(ms[i])
		})
	}
	wg.Wait()
	return ms
}

// outcome is what a probe returned.
type outcome struct {
	evidence probes.Evidence
	err      error
}

// errLate is the reason of a step whose probe did not stop when told to.
var errLate = errors.New("the probe did not stop in time and was left behind")

// measure runs one step: its probe has timeout, and grace beyond it to return.
func (r *Runner) measure(ctx context.Context, step *Step, timeout, grace time.Duration, since time.Time, recorder *Recorder) Measurement {
	start := r.now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	look := func() outcome { return r.check(ctx, step, grace) }
	o := recorder.take(ctx, step, grace, since, look)
	m := Measurement{Step: step.ID, Evidence: o.evidence, TookMS: r.now().Sub(start).Milliseconds()}
	if o.err != nil {
		m.Err = explain(ctx, o.err, timeout)
		r.logger().WarnContext(ctx, "step not measured", "step", step.ID, "probe", step.Kind, "error", m.Err, "took_ms", m.TookMS)
	}
	return m
}

// check calls the step's probe, never twice at a time, and waits for it until
// grace after the end of ctx.
func (r *Runner) check(ctx context.Context, step *Step, grace time.Duration) outcome {
	visit, err := step.guard.enter(ctx)
	if err != nil {
		return outcome{err: err}
	}
	done := make(chan outcome, 1)
	go func() {
		defer visit.leave()
		done <- r.protect(ctx, step)
	}()
	select {
	case o := <-done:
		return o
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case o := <-done:
		return o
	case <-timer.C:
		visit.abandon()
		return outcome{err: errLate}
	}
}

// protect turns a panic of the probe into an error.
func (r *Runner) protect(ctx context.Context, step *Step) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			r.logger().ErrorContext(ctx, "probe panicked", "step", step.ID, "probe", step.Kind, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			o = outcome{err: fmt.Errorf("the probe panicked: %v", v)}
		}
	}()
	o.evidence, o.err = step.probe.Check(ctx)
	return o
}

// explain words an error for the report. A deadline says how long was waited.
func explain(ctx context.Context, err error, timeout time.Duration) string {
	text := strings.TrimSpace(err.Error())
	switch {
	case text == "":
		return "the probe failed without saying why"
	case errors.Is(ctx.Err(), context.Canceled):
		return "the run was cancelled: " + text
	case ctx.Err() != nil:
		return fmt.Sprintf("no answer within %s: %s", timeout.Round(time.Millisecond), text)
	}
	return text
}

func (r *Runner) logger() *slog.Logger {
	if r.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Logger
}

func (r *Runner) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

func (r *Runner) newID() string {
	if r.NewID == nil {
		return strings.ToLower(rand.Text()[:16])
	}
	return r.NewID()
}
