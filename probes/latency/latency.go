// Package latency measures how long requests take inside a service, and in which
// layer: what moved when the whole became slow. It also tells which layer
// answers, and what the shards are asked in vain.
package latency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options = source.WindowOptions

// Kind returns the kind of probe that measures the requests of the service
// behind api. api may be nil: every fact is then missing.
func Kind(api *source.HTTP) probes.Kind {
	return probes.Kind{
		Facts:  facts(),
		Tables: []string{tableLayers},
		New: source.Windowed(func(window time.Duration) probes.Probe {
			return &probe{api: api, window: window}
		}),
	}
}

type probe struct {
	api    *source.HTTP
	window time.Duration
}

// Check implements probes.Probe. It reads one document twice.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(facts())
	if p.api == nil {
		rec.MissRest("no checker is configured: set its URL")
		return rec.Evidence("no checker", 0)
	}
	first, err := p.read(ctx, rec)
	if err != nil {
		rec.MissRest(err.Error())
		return rec.Evidence(p.api.Name(), 0)
	}
	last, span := first.Next(ctx, p.window, func() (reading, error) { return p.read(ctx, rec) })
	change := difference(first.Doc, last.Doc, span)
	change.record(rec)
	return rec.Evidence(p.api.Name(), span.Duration())
}

// reading is the document at one moment.
type reading = source.Reading[source.Latency]

// What a document may make the agent work on; a service has a layer or two more than
// the contract names.
const (
	maxEndpoints = 64
	maxLayers    = 16
)

func (p *probe) read(ctx context.Context, rec *probes.Recorder) (r reading, err error) {
	if err := p.api.Get(ctx, rec.Cost(), source.PathLatency, nil, &r.Doc); err != nil {
		return r, err
	}
	r.Sample = source.Sample{Taken: time.Now(), Now: r.Doc.Now, Epoch: r.Doc.StartedAt.Text()}
	switch {
	case len(r.Doc.Endpoints) == 0:
		return r, errors.New("GET " + source.PathLatency + ": the document has no endpoints")
	case len(r.Doc.Endpoints) > maxEndpoints:
		return r, fmt.Errorf("GET %s: the document has more than %d endpoints", source.PathLatency, maxEndpoints)
	}
	for _, e := range r.Doc.Endpoints {
		if len(e.Layers) > maxLayers {
			return r, fmt.Errorf("GET %s: an endpoint has more than %d layers", source.PathLatency, maxLayers)
		}
	}
	return r, nil
}
