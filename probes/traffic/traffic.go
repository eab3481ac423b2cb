// Package traffic measures what kind of traffic a service has: how much more it
// is than before, how many different names and addresses it is about, how much
// of it one address makes, and how often the back ends are asked for one name.
package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// minRequests is how many requests a share needs: of 200, the standard error
	// is at most 3.5 points.
	minRequests = 200
	// minLookups is how many look-ups it takes to tell that names come again.
	minLookups = 50
	// tableSources has the addresses with the most requests, under pseudonyms.
	tableSources = "sources"
	maxRows      = 5
)

// Kind returns the kind of probe that measures the traffic of the service behind
// api. api may be nil: every fact is then missing.
func Kind(api *source.HTTP) probes.Kind {
	return probes.Kind{
		Facts:  facts(),
		Tables: []string{tableSources},
		New: func(decode func(any) error) (probes.Probe, error) {
			if err := decode(&struct{}{}); err != nil {
				return nil, err
			}
			return &probe{api: api}, nil
		},
	}
}

type probe struct{ api *source.HTTP }

// Check implements probes.Probe. It reads one document: the service itself
// compares its traffic with the time before.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(facts())
	if p.api == nil {
		rec.MissRest("no checker is configured: set its URL")
		return rec.Evidence("no checker", 0)
	}
	var doc source.Traffic
	if err := p.api.Get(ctx, rec.Cost(), source.PathTraffic, nil, &doc); err != nil {
		rec.MissRest(err.Error())
		return rec.Evidence(p.api.Name(), 0)
	}
	recordRates(rec, doc)
	recordSpread(rec, doc)
	return rec.Evidence(p.api.Name(), seconds(doc.Since.Since(doc.Now, "since")))
}

// seconds is a window in seconds, 0 where it is not known or makes no sense.
func seconds(n probes.Number) time.Duration {
	return time.Duration(n.Clamp(0, 3600).Or(0) * float64(time.Second))
}

// recordRates records the traffic of late against that of before.
func recordRates(rec *probes.Recorder, doc source.Traffic) {
	base := doc.Baseline
	rec.Set("checks_rate", doc.ChecksPerSecond)
	rec.Set("registrations_rate", doc.RegistrationsPerSecond)
	rec.Set("baseline_seconds", probes.Known(base.Seconds.Or(0))) // left out while there is none
	rec.Set("baseline_checks_rate", base.ChecksPerSecond)
	rec.Set("baseline_registrations_rate", base.RegistrationsPerSecond)
	rec.Set("checks_over_baseline", doc.ChecksPerSecond.Over(base.ChecksPerSecond, "there were no checks before"))
	rec.Set("registrations_over_baseline", doc.RegistrationsPerSecond.Over(base.RegistrationsPerSecond, "there were no registrations before"))

	now := doc.ChecksPerSecond.Plus(doc.RegistrationsPerSecond)
	before := base.ChecksPerSecond.Plus(base.RegistrationsPerSecond)
	top := topShare(doc).Times(now)
	rec.Set("top_source_rate", top)
	excess := now.Minus(before)
	if e, ok := excess.Get(); ok && e <= 0 {
		rec.Set("top_source_excess_share", top.Clamp(0, 0)) // there is no more than before
		return
	}
	rec.Set("top_source_excess_share", top.Over(excess, "").Clamp(0, 1))
}

// topShare is the share of the busiest address, at least.
func topShare(doc source.Traffic) probes.Number {
	known := doc.Addressed.AtLeast(minRequests, "fewer than 200 requests with an address")
	if len(doc.TopSources) == 0 {
		return probes.Absent("the service does not tell where requests come from")
	}
	return doc.TopSources[0].Requests.Over(known, "").Clamp(0, 1)
}

// recordSpread records over how many names and addresses the traffic spreads.
func recordSpread(rec *probes.Recorder, doc source.Traffic) {
	requests := doc.Checks.Plus(doc.Registrations)
	rec.Set("distinct_name_ratio", doc.Names.Over(requests.AtLeast(minRequests, "fewer than 200 requests"), "").Clamp(0, 1))
	rec.Set("sources", doc.Sources)
	rec.Set("top_source_share", topShare(doc))
	rec.Set("lookups", doc.Lookups)
	lookups := doc.Lookups.AtLeast(minLookups, "fewer than 50 names were looked up")
	// Both are counted at the same time, but one of them is estimated.
	rec.Set("lookups_per_name", lookups.Over(doc.NamesLookedUp, "no name was looked up").Clamp(1, maxPerName))
	for _, s := range doc.TopSources[:min(len(doc.TopSources), maxRows)] {
		rec.Row(probes.Row{
			Table: tableSources, Key: s.Source, Value: s.Requests.Or(0), Unknown: s.Requests.Why() != "",
			Note: fmt.Sprintf("at most %.0f more", s.Error.Or(0)),
		})
	}
}

// maxPerName keeps a nonsensical document finite.
const maxPerName = 1e9
