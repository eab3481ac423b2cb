package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/regpath/diagnose/playbooks"
)

// The bounds of the flight recorder: samples more often than once a second would
// be load, and more than 3,600 of them would be memory.
const (
	minEvery   = time.Second
	maxSamples = 3600
)

// recorders are the flight recorders of the configuration in force: one for each
// playbook that is bound to a target. A reload makes new ones, which begin anew.
type recorders struct {
	config recorderConfig

	mu      sync.Mutex
	running map[*playbooks.Playbook]*flight
	// past is what those did that have ended.
	past playbooks.RecorderStats
}

// flight is a recorder that runs.
type flight struct {
	*playbooks.Recorder
	stop context.CancelFunc
	over chan struct{}
}

func newRecorders(c recorderConfig) *recorders {
	return &recorders{config: c, running: map[*playbooks.Playbook]*flight{}}
}

// of returns the recorder of a playbook, nil if it has none.
func (r *recorders) of(p *playbooks.Playbook) *playbooks.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.running[p]; f != nil {
		return f.Recorder
	}
	return nil
}

// use records what the routing runs, until stop or another use, whatever becomes of
// ctx, and nothing else.
func (r *recorders) use(ctx context.Context, in *routing) {
	r.stop()
	if r.config.Every == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, route := range in.routes {
		p := route.playbook
		if r.running[p] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f := &flight{Recorder: playbooks.NewRecorder(p, r.config.Every, r.config.Keep), stop: cancel, over: make(chan struct{})}
		r.running[p] = f
		go func() {
			defer close(f.over)
			f.Run(ctx)
		}()
	}
}

// stop ends all recorders and waits for their checks: these must be over before
// connections are closed.
func (r *recorders) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.running {
		f.stop()
	}
	for p, f := range r.running {
		<-f.over
		r.past = r.past.Plus(f.Stats())
		delete(r.running, p)
	}
}

func (r *recorders) stats() playbooks.RecorderStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := r.past
	for _, f := range r.running {
		sum = sum.Plus(f.Stats())
	}
	return sum
}

// last is when the recorder that is furthest behind last measured something; NaN
// if one has not yet, or none is running.
func (r *recorders) last() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.running) == 0 {
		return math.NaN()
	}
	oldest := math.Inf(1)
	for _, f := range r.running {
		last := f.Stats().Last
		if last.IsZero() {
			return math.NaN()
		}
		oldest = min(oldest, float64(last.UnixMilli())/1000)
	}
	return oldest
}

// register puts what the recorders cost among the agent's metrics.
func (r *recorders) register(registry prometheus.Registerer) error {
	var errs []error
	counter := func(name, help string, value func(playbooks.RecorderStats) float64) {
		errs = append(errs, registry.Register(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "diagnose_recorder_" + name + "_total", Help: help},
			func() float64 { return value(r.stats()) },
		)))
	}
	errs = append(errs, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "diagnose_recorder_last_sample_timestamp_seconds",
		Help: "When the flight recorder last measured something, in Unix time; NaN before, and where there is none.",
	}, r.last)))
	counter("samples", "Checks of a step for the flight recorder.", func(s playbooks.RecorderStats) float64 { return float64(s.Samples) })
	counter("gaps", "Checks of a step for the flight recorder that measured nothing.", func(s playbooks.RecorderStats) float64 { return float64(s.Gaps) })
	counter("redis_commands", "Redis commands of the flight recorder.", func(s playbooks.RecorderStats) float64 { return float64(s.Cost.RedisCommands) })
	counter("queries", "Queries of the flight recorder.", func(s playbooks.RecorderStats) float64 { return float64(s.Cost.Queries) })
	counter("http_requests", "HTTP requests of the flight recorder.", func(s playbooks.RecorderStats) float64 { return float64(s.Cost.HTTPRequests) })
	counter("bytes", "Bytes that the flight recorder received and sent.", func(s playbooks.RecorderStats) float64 { return float64(s.Cost.Bytes) })
	return errors.Join(errs...)
}
