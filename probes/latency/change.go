package latency

import (
	"fmt"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// minTimed is how many requests a mean or a share needs, minRanked how many
	// a 99th percentile: with fewer it is the slowest of them.
	minTimed  = 10
	minRanked = 100
	// tableLayers has the time of a call by endpoint and layer.
	tableLayers = "layers"
)

// change is what happened between two readings.
type change struct {
	span            source.Span
	check, register endpoint
	found, missing  probes.Number
	stalls, stalled probes.Number
}

// endpoint is what happened to the requests to one endpoint.
type endpoint struct {
	name                   string
	requests, errors, busy probes.Number
	bounds                 []probes.Number
	counts                 []probes.Number
	first, last            source.Endpoint
	legs                   []leg
}

// leg is what happened in one layer of them.
type leg struct {
	layer       string
	calls, busy probes.Number
}

func difference(first, last source.Latency, span source.Span) change {
	return change{
		span:     span,
		check:    between("check", first, last, span),
		register: between("register", first, last, span),
		found:    span.Delta(first.Lookups.Found, last.Lookups.Found),
		missing:  span.Delta(first.Lookups.Missing, last.Lookups.Missing),
		stalls:   span.Delta(first.Scheduling.Stalls, last.Scheduling.Stalls),
		stalled:  span.Delta(first.Scheduling.StalledSeconds, last.Scheduling.StalledSeconds),
	}
}

func between(name string, first, last source.Latency, span source.Span) endpoint {
	e := endpoint{name: name, bounds: last.LE, first: find(first, name), last: find(last, name)}
	e.requests = span.Delta(e.first.Requests, e.last.Requests)
	e.errors = span.Delta(e.first.Errors, e.last.Errors)
	e.busy = span.Delta(e.first.BusySeconds, e.last.BusySeconds)
	if len(e.first.Counts) == len(e.last.Counts) && len(e.last.Counts) == len(last.LE)+1 {
		for i := range e.last.Counts {
			e.counts = append(e.counts, span.Delta(e.first.Counts[i], e.last.Counts[i]))
		}
	}
	for i, l := range e.last.Layers {
		if i < len(e.first.Layers) && e.first.Layers[i].Layer == l.Layer {
			was := e.first.Layers[i]
			e.legs = append(e.legs, leg{l.Layer, span.Delta(was.Calls, l.Calls), span.Delta(was.BusySeconds, l.BusySeconds)})
		}
	}
	return e
}

// find returns the endpoint of that name; of one that is left out nothing is known.
func find(doc source.Latency, name string) source.Endpoint {
	for _, e := range doc.Endpoints {
		if e.Endpoint == name {
			return e
		}
	}
	why := probes.Absent("the document has no endpoint " + name)
	e := source.Endpoint{Requests: why, Errors: why, BusySeconds: why}
	e.AnsweredBy.Bloom, e.AnsweredBy.Local, e.AnsweredBy.Redis, e.AnsweredBy.Shard = why, why, why, why
	return e
}

func (c change) record(rec *probes.Recorder) {
	for _, e := range []endpoint{c.check, c.register} {
		rec.Set(e.name+"_rate", c.span.PerSecond(e.requests))
		timed := e.requests.AtLeast(minTimed, "fewer than 10 requests to the endpoint in the window")
		rec.Set(e.name+"_seconds", e.busy.Over(timed, ""))
		rec.Set(e.name+"_error_ratio", e.errors.Over(timed, "").Clamp(0, 1))
		rec.Set(e.name+"_p99_seconds", e.quantile(0.99))
		for _, layer := range []string{"redis", "shard"} {
			rec.Set(e.name+"_"+layer+"_share", e.share(layer))
		}
		e.rows(rec)
	}
	rec.Set("check_p50_seconds", c.check.quantile(0.5))
	rec.Set("register_followup_rate", c.span.PerSecond(c.register.leg("followup").calls))
	rec.Set("register_followup_share", c.register.share("followup"))
	timed := c.register.requests.AtLeast(minTimed, "fewer than 10 requests to the endpoint in the window")
	rec.Set("register_followup_seconds", c.register.leg("followup").busy.Over(timed, ""))
	rec.Set("stalled_share", c.span.PerSecond(c.stalled).Clamp(0, 1))
	rec.Set("stall_seconds", c.stalled.Over(c.stalls, "no stall in the window"))
	c.answers(rec)
	lookups := c.found.Plus(c.missing)
	rec.Set("lookups_rate", c.span.PerSecond(lookups))
	rec.Set("lookups_missing_share", c.missing.Over(lookups.AtLeast(minTimed, "a shard was asked fewer than 10 times in the window"), "").Clamp(0, 1))
}

// answers records which layer answers checks.
func (c change) answers(rec *probes.Recorder) {
	first, last := c.check.first.AnsweredBy, c.check.last.AnsweredBy
	timed := c.check.requests.AtLeast(minTimed, "fewer than 10 requests to the endpoint in the window")
	for _, by := range []struct {
		layer       string
		first, last probes.Number
	}{
		{"bloom", first.Bloom, last.Bloom},
		{"local", first.Local, last.Local},
		{"redis", first.Redis, last.Redis},
		{"shard", first.Shard, last.Shard},
	} {
		rec.Set(by.layer+"_answers_share", c.span.Delta(by.first, by.last).Over(timed, "").Clamp(0, 1))
	}
}

// leg returns what happened in the layer; of one that is left out nothing is known.
func (e endpoint) leg(layer string) leg {
	for _, l := range e.legs {
		if l.layer == layer {
			return l
		}
	}
	why := probes.Absent("the document does not tell the time that " + e.name + " spends in the layer " + layer)
	return leg{layer, why, why}
}

// share is the part of all time that is spent in the layer.
func (e endpoint) share(layer string) probes.Number {
	busy := e.busy
	if e.requests.Or(minTimed) < minTimed {
		busy = e.requests.AtLeast(minTimed, "fewer than 10 requests to the endpoint in the window")
	}
	return e.leg(layer).busy.Over(busy, "the requests took no time").Clamp(0, 1)
}

// quantile reads the q-quantile off the histogram: within a bucket the times are
// taken to be spread evenly, and above the last bound it is that bound.
func (e endpoint) quantile(q float64) probes.Number {
	if e.counts == nil {
		return probes.Absent("the document has no histogram of the endpoint " + e.name)
	}
	total := probes.Known(0)
	for _, n := range e.counts {
		total = total.Plus(n)
	}
	all, ok := total.AtLeast(minRanked, "fewer than 100 requests to the endpoint in the window").Get()
	if !ok {
		return total.AtLeast(minRanked, "fewer than 100 requests to the endpoint in the window")
	}
	lower, rank := probes.Known(0), q*all
	for i, upper := range e.bounds {
		n := e.counts[i].Or(0)
		if rank <= n && n > 0 {
			return lower.Plus(upper.Minus(lower).Times(probes.Known(rank / n)))
		}
		rank -= n
		lower = upper
	}
	return lower
}

// rows lists how long a call takes in each layer.
func (e endpoint) rows(rec *probes.Recorder) {
	for _, l := range e.legs {
		each := l.busy.Over(l.calls, "no calls in the window")
		row := probes.Row{Table: tableLayers, Key: e.name + " " + l.layer, Value: each.Or(0), Unknown: each.Why() != "", Unit: probes.Seconds}
		if share, ok := e.share(l.layer).Get(); ok {
			row.Note = fmt.Sprintf("%.0f %% of the time of all requests", 100*share)
		}
		rec.Row(row)
	}
}
