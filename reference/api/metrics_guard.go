package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/regpath/diagnose/reference/guard"
)

// guardDescs describe the guard, the lives of names, and the ids.
type guardDescs struct {
	outcomes, errors, evicted, latency *prometheus.Desc
	freed, told                        *prometheus.Desc
	ids, idWaits, idRefused, idBehind  *prometheus.Desc
	table                              *prometheus.Desc
}

func newGuardDescs(d func(name, help string, labels ...string) *prometheus.Desc) guardDescs {
	return guardDescs{
		outcomes:  d("guard_verdicts_total", "Verdicts by check and outcome.", "check", "outcome"),
		errors:    d("guard_errors_total", "Requests that a check could not decide.", "check"),
		evicted:   d("guard_evicted_total", "Entries that a limiter gave up for lack of room.", "check"),
		latency:   d("guard_check_duration_seconds", "Time inside a check; of local ones about one in 64.", "check"),
		freed:     d("names_freed_total", "Names that became available through this instance."),
		told:      d("names_freed_invalidated_total", "Those of them of which Redis was told at once."),
		ids:       d("ids_given_total", "User ids given out, by segment.", "segment"),
		idWaits:   d("ids_waits_total", "Pauses for a clock that went back."),
		idRefused: d("ids_refused_total", "Calls that got no id."),
		idBehind:  d("ids_clock_behind_seconds", "How far the clock was behind the ids at the latest call."),
		table:     d("routing_table_version", "Version of the routing table in use."),
	}
}

func (c *collector) collectGuard(s sink) {
	d := c.guard
	if g := c.server.guard; g != nil {
		for _, x := range g.Stats() {
			for outcome, n := range x.Outcomes {
				s.counter(d.outcomes, float64(n), x.Check, guard.Outcome(outcome).String())
			}
			s.counter(d.errors, float64(x.Errors), x.Check)
			s.counter(d.evicted, float64(x.Evicted), x.Check)
			le := make([]float64, len(x.Latency.Le))
			for i, bound := range x.Latency.Le {
				le[i] = bound.Seconds()
			}
			s.histogram(d.latency, le, x.Latency.Counts, x.Latency.Sum.Seconds(), x.Check)
		}
	}
	freed, told := c.server.service.FreedNames()
	s.counter(d.freed, float64(freed))
	s.counter(d.told, float64(told))
	ids := c.server.service.IDs.Stats()
	s.counter(d.ids, float64(ids.Given-ids.Spare), "own")
	s.counter(d.ids, float64(ids.Spare), "spare")
	s.counter(d.idWaits, float64(ids.Waits))
	s.counter(d.idRefused, float64(ids.Refused))
	s.gauge(d.idBehind, ids.Behind.Seconds())
	s.gauge(d.table, float64(c.server.service.Shards.Table().Version))
}

// collectLayers tells how long checks took by the layer that answered.
func (c *collector) collectLayers(s sink) {
	for layer, r := range c.server.check.readTags() {
		s.histogram(c.layerLatency, c.server.check.le, r.counts, r.busy.Seconds(), layer)
	}
	for endpoint, codes := range map[string]map[int]uint64{"attempt": c.server.attempt.read().codes, "move": c.server.move.read().codes} {
		for code, n := range codes {
			s.counter(c.requests, float64(n), endpoint, strconv.Itoa(code))
		}
	}
}
