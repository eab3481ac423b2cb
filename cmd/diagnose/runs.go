package main

import (
	"context"
	"sync"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// runs lets incidents share runs. One outage makes many groups of alerts fire,
// and the target that is sick anyway must not be measured for each of them: a
// run answers every incident of its playbook and target that was heard of, or has
// ended, before it began.
type runs struct {
	run runFunc
	now func() time.Time

	mu sync.Mutex
	// latest is the last run of each kind, over or not.
	latest map[runKind]*sharedRun
}

// runKind is what runs must have in common to answer the same question.
type runKind struct {
	playbook, target string
}

// sharedRun is a run that may answer several incidents.
type sharedRun struct {
	began time.Time
	// done is closed when report is there; it is nil if the run was cut short.
	done   chan struct{}
	report *playbooks.Report
}

// headStart is how much earlier than an incident was heard of its run may have
// begun. The groups of one outage come within a second or two, and what an alert
// is about has lasted longer than that before it fires.
const headStart = 2 * time.Second

func newRuns(r *playbooks.Runner) *runs {
	return &runs{run: r.Run, now: time.Now, latest: map[runKind]*sharedRun{}}
}

// report returns the report of a run that tells how things stood at since: one
// that has been made, the one that is going on, or the next one. It fails only
// when ctx ends.
func (s *runs) report(ctx context.Context, p *playbooks.Playbook, in playbooks.Incident, since time.Time) (playbooks.Report, error) {
	for {
		r, mine := s.join(runKind{p.Name, in.Target}, since)
		if mine {
			s.lead(ctx, r, p, in)
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return playbooks.Report{}, ctx.Err()
		}
		// A run of one's own answers whatever the clock says: that of the agent which
		// heard of the incident may be ahead of this one's.
		if r.report != nil && (mine || r.answers(since)) {
			return r.report.For(in), nil
		}
		if err := ctx.Err(); err != nil {
			return playbooks.Report{}, err
		}
	}
}

// since is when a run must have begun to answer the incident.
func (s *runs) since(in playbooks.Incident) time.Time {
	if in.HeardAt.IsZero() {
		return s.now()
	}
	return in.HeardAt.Add(-headStart)
}

// join returns the latest run if it tells how things stood at since, or is still
// going on and must be waited for; else a new one, which is the caller's to lead.
func (s *runs) join(kind runKind, since time.Time) (_ *sharedRun, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.latest[kind]; r != nil {
		select {
		case <-r.done:
			if r.report != nil && r.answers(since) {
				return r, false
			}
		default:
			return r, false
		}
	}
	r := &sharedRun{began: s.now(), done: make(chan struct{})}
	s.latest[kind] = r
	return r, true
}

// lead makes the run.
func (s *runs) lead(ctx context.Context, r *sharedRun, p *playbooks.Playbook, in playbooks.Incident) {
	defer close(r.done) // whatever happens: others wait for it
	report := s.run(ctx, p, in)
	if ctx.Err() == nil {
		r.report = &report
	}
}

// answers reports whether the run tells how things stood at since: it began no
// earlier.
func (r *sharedRun) answers(since time.Time) bool {
	return !r.began.Before(since)
}
