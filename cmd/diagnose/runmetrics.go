package main

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/regpath/diagnose/playbooks"
)

// runFunc makes a run.
type runFunc func(ctx context.Context, p *playbooks.Playbook, in playbooks.Incident) playbooks.Report

// runMetrics tell how long runs take and what their steps come to.
type runMetrics struct {
	seconds *prometheus.HistogramVec
	steps   *prometheus.CounterVec
}

func newRunMetrics() *runMetrics {
	return &runMetrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "diagnose_run_duration_seconds", Help: "Time of a run, by playbook and verdict: cause-found, healthy, inconclusive.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"playbook", "verdict"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "diagnose_step_outcomes_total",
			Help: "Steps run, by playbook, step and status: ok, warning, critical, unknown (nothing could be measured, or no rule matched).",
		}, []string{"playbook", "step", "status"}),
	}
}

func (m *runMetrics) register(reg prometheus.Registerer) error {
	return errors.Join(reg.Register(m.seconds), reg.Register(m.steps))
}

// around returns run, with its runs counted. What was cut short is no run.
func (m *runMetrics) around(run runFunc) runFunc {
	return func(ctx context.Context, p *playbooks.Playbook, in playbooks.Incident) playbooks.Report {
		r := run(ctx, p, in)
		if ctx.Err() != nil {
			return r
		}
		m.seconds.WithLabelValues(p.Name, string(r.Verdict)).Observe(float64(r.DurationMS) / 1000)
		for _, f := range r.Findings {
			m.steps.WithLabelValues(p.Name, f.Step, f.Status.String()).Inc()
		}
		return r
	}
}
