// Package clock measures the clocks that the path depends on: whether the ids
// that a service gives out are ahead of its clock, and how far that clock is
// from the agent's own.
package clock

import (
	"context"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options = source.WindowOptions

// Kind returns the kind of probe that measures the clocks of the service behind
// api. api may be nil: every fact is then missing.
func Kind(api *source.HTTP) probes.Kind {
	return probes.Kind{
		Facts: facts(),
		New: source.Windowed(func(window time.Duration) probes.Probe {
			return &probe{api: api, window: window}
		}),
	}
}

// facts documents what the probe can return.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "offset_seconds", Unit: probes.Seconds, Signed: true, Help: "How far the service's clock is ahead of the agent's, at one answer; off by no more than the answer took and 0.2 s."},
		{Name: "ids_rate", Unit: probes.PerSecond, Help: "User ids given out per second."},
		{Name: "ids_behind_seconds", Unit: probes.Seconds, Help: "How far the service's clock was behind the last user id when an id was last asked for.", Expected: "0"},
		{Name: "ids_refused_rate", Unit: probes.PerSecond, Help: "Calls per second that got no user id.", Expected: "0"},
		{Name: "ids_waits_rate", Unit: probes.PerSecond, Help: "Pauses per second for a clock that went back or stands still.", Expected: "0"},
		{Name: "ids_spare_rate", Unit: probes.PerSecond, Help: "User ids per second from the spare segment, which serves while the clock is behind.", Expected: "0"},
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
	rec.Set("offset_seconds", last.Doc.Now.Since(source.At(last.Taken), "now").Times(probes.Known(-1)))
	a, b := first.Doc.IDs, last.Doc.IDs
	rec.Set("ids_rate", span.Rate(a.Given, b.Given))
	rec.Set("ids_behind_seconds", b.BehindSeconds)
	rec.Set("ids_refused_rate", span.Rate(a.Refused, b.Refused))
	rec.Set("ids_waits_rate", span.Rate(a.Waits, b.Waits))
	rec.Set("ids_spare_rate", span.Rate(a.Spare, b.Spare))
	return rec.Evidence(p.api.Name(), span.Duration())
}

// reading is the document at one moment.
type reading = source.Reading[source.Clock]

func (p *probe) read(ctx context.Context, rec *probes.Recorder) (r reading, err error) {
	if err := p.api.Get(ctx, rec.Cost(), source.PathClock, nil, &r.Doc); err != nil {
		return r, err
	}
	r.Sample = source.Sample{Taken: time.Now(), Now: r.Doc.Now, Epoch: r.Doc.StartedAt.Text()}
	return r, nil
}
