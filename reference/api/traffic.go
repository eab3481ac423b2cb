package api

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/regpath/diagnose/reference/traffic"
)

// watch notes what is asked for and where it comes from: the client, where the
// proxies are known, else the peer.
func (s *Server) watch(k traffic.Kind, name string, r *http.Request) {
	var from netip.Addr
	if s.origin != nil {
		from = s.origin.Client(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))
	} else if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = peer.Addr().Unmap().WithZone("")
	}
	s.service.Traffic().Asked(k, name, from, time.Now())
}

type trafficDoc struct {
	Now           time.Time `json:"now"`
	StartedAt     time.Time `json:"started_at"`
	Since         time.Time `json:"since"`
	Checks        uint64    `json:"checks"`
	Registrations uint64    `json:"registrations"`
	Names         float64   `json:"names"`
	Sources       float64   `json:"sources"`
	Addressed     uint64    `json:"addressed"`
	TopSources    []source  `json:"top_sources"`
	Lookups       uint64    `json:"lookups"`
	NamesLookedUp float64   `json:"names_looked_up"`
	// Left out while they are not known.
	ChecksPerSecond        *float64     `json:"checks_per_second,omitempty"`
	RegistrationsPerSecond *float64     `json:"registrations_per_second,omitempty"`
	Baseline               *baselineDoc `json:"baseline,omitempty"`
}

type source struct {
	Source   string `json:"source"`
	Requests uint64 `json:"requests"`
	Error    uint64 `json:"error"`
}

type baselineDoc struct {
	Seconds                float64 `json:"seconds"`
	ChecksPerSecond        float64 `json:"checks_per_second"`
	RegistrationsPerSecond float64 `json:"registrations_per_second"`
}

func (s *Server) trafficDoc() trafficDoc {
	now := time.Now()
	t := s.service.Traffic().Stats(now)
	doc := trafficDoc{
		Now: now, StartedAt: s.startedAt, Since: t.Since, Checks: t.Checks, Registrations: t.Registers,
		Names: t.Names, Sources: t.Sources, Addressed: t.Addressed, TopSources: []source{},
		Lookups: t.Lookups, NamesLookedUp: t.LookedUp,
	}
	for _, x := range t.Top {
		doc.TopSources = append(doc.TopSources, source{Source: x.Pseudonym, Requests: x.Requests, Error: x.Error})
	}
	checks, registrations := t.Rates[traffic.Check], t.Rates[traffic.Register]
	if checks.Known {
		doc.ChecksPerSecond, doc.RegistrationsPerSecond = &checks.PerSecond, &registrations.PerSecond
	}
	if checks.Over > 0 {
		doc.Baseline = &baselineDoc{
			Seconds: checks.Over.Seconds(), ChecksPerSecond: checks.Baseline, RegistrationsPerSecond: registrations.Baseline,
		}
	}
	return doc
}

type legsDoc struct {
	Now       time.Time     `json:"now"`
	StartedAt time.Time     `json:"started_at"`
	LE        []float64     `json:"le"`
	Endpoints []legEndpoint `json:"endpoints"`
	Lookups   struct {
		Found   uint64 `json:"found"`
		Missing uint64 `json:"missing"`
	} `json:"lookups"`
	Scheduling struct {
		Stalls         uint64  `json:"stalls"`
		StalledSeconds float64 `json:"stalled_seconds"`
	} `json:"scheduling"`
}

type legEndpoint struct {
	Endpoint    string            `json:"endpoint"`
	Requests    uint64            `json:"requests"`
	Errors      uint64            `json:"errors"`
	BusySeconds float64           `json:"busy_seconds"`
	Counts      []uint64          `json:"counts"`
	AnsweredBy  map[string]uint64 `json:"answered_by,omitempty"`
	Layers      []legDoc          `json:"layers"`
}

type legDoc struct {
	Layer       string   `json:"layer"`
	Calls       uint64   `json:"calls"`
	BusySeconds float64  `json:"busy_seconds"`
	Counts      []uint64 `json:"counts"`
}

func (s *Server) latencyDoc() legsDoc {
	doc := legsDoc{Now: time.Now(), StartedAt: s.startedAt, LE: s.check.le}
	found := s.service.Lookups()
	doc.Lookups.Found, doc.Lookups.Missing = found.Found, found.Missing
	doc.Scheduling.Stalls, doc.Scheduling.StalledSeconds = s.pulse.stalls.Load(), time.Duration(s.pulse.stalled.Load()).Seconds()
	spent := s.service.Spent()
	for _, m := range []*meter{s.check, s.register} {
		r := m.read()
		e := legEndpoint{
			Endpoint: r.endpoint, Requests: r.requests, Errors: r.errors, BusySeconds: r.busy.Seconds(), Counts: r.counts, Layers: []legDoc{},
		}
		if m == s.check {
			e.AnsweredBy = r.tags
		}
		for _, x := range spent {
			if x.Leg.Endpoint() == r.endpoint {
				e.Layers = append(e.Layers, legDoc{Layer: x.Leg.Layer(), Calls: x.Calls, BusySeconds: x.Busy.Seconds(), Counts: x.Counts})
			}
		}
		doc.Endpoints = append(doc.Endpoints, e)
	}
	return doc
}
