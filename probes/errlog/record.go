package errlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/regpath/diagnose/probes"
)

// codeFacts count the errors of one SQLSTATE each.
var codeFacts = []struct{ fact, code string }{
	{"read_only_errors", "25006"}, {"conflict_errors", "23505"}, {"slot_errors", "53300"}, {"pooler_errors", "08P01"},
}

// refusalClasses are the classes of SQLSTATE with which a server that runs refuses
// what it is sent: a feature, data, a transaction's state, a prepared statement's
// name, a login, syntax or access. Conflicts (23) come of names and not of shards; the
// other classes are of a connection, of resources or of an operator (08, 53, 57, 58).
var refusalClasses = []string{"0A", "22", "25", "26", "28", "42"}

// refusal says whether a shard's server answered, and refused.
func (g groupKey) refusal() bool {
	return g.layer == "shard" && len(g.code) == 5 && slices.Contains(refusalClasses, g.code[:2])
}

// record records what follows from the errors alone.
func (v *view) record(rec *probes.Recorder) {
	rec.Set("errors", probes.Known(float64(v.total)))
	rec.Set("errors_rate", v.rate())
	rec.Set("baseline_rate", v.baseline())
	rec.Set("groups", probes.Known(float64(len(v.kinds))))
	var redis, shard, refused, other int
	for _, k := range v.kinds {
		if k.template.group.refusal() {
			refused += k.latest
		}
		switch {
		case k.template.group.layer == "redis":
			redis += k.latest
		case k.template.group.layer == "shard":
			shard += k.latest
		case k.other():
			other += k.latest
		}
	}
	rec.Set("redis_errors", probes.Known(float64(redis)))
	rec.Set("shard_errors", probes.Known(float64(shard)))
	rec.Set("shard_refusals", probes.Known(float64(refused)))
	rec.Set("other_errors", probes.Known(float64(other)))
	for _, c := range codeFacts {
		n := 0
		for _, k := range v.kinds {
			if k.template.group.code == c.code {
				n += k.latest
			}
		}
		rec.Set(c.fact, probes.Known(float64(n)))
	}
	v.trails.record(rec)
	every := func(*kind) bool { return true }
	groups, count := v.fresh(every)
	_, others := v.fresh((*kind).other)
	rec.Set("new_groups", groups)
	rec.Set("new_errors", count)
	rec.Set("new_errors_share", count.Over(probes.Known(float64(max(v.total, 1))), ""))
	rec.Set("new_other_errors", others)
	rec.Set("new_errors_ended", v.ended(every).If(count.Why() == "", count.Why()))
	rec.Set("new_other_errors_ended", v.ended((*kind).other).If(others.Why() == "", others.Why()))
	v.rows(rec)
}

// rate is per second of the look-back that is remembered.
func (v *view) rate() probes.Number {
	if v.total == 0 {
		return probes.Known(0)
	}
	span := min(v.lookback, v.now.Sub(v.since))
	if span < time.Second {
		return probes.Absent("the service remembers errors for less than a second")
	}
	return probes.Known(float64(v.rated) / span.Seconds())
}

// baseline is per second of the baseline, of which at least a quarter must be
// remembered.
func (v *view) baseline() probes.Number {
	span := min(v.lookback, v.now.Add(-v.lookback).Sub(v.since))
	if span < v.lookback/4 {
		return probes.Absent(v.forgotten())
	}
	return probes.Known(float64(v.ratedBefore) / span.Seconds())
}

// forgotten says why the time before is not known.
func (v *view) forgotten() string {
	age := v.now.Sub(v.since).Round(time.Second)
	if v.dropped != 0 {
		return fmt.Sprintf("the service has dropped older errors and remembers the last %v only: what is new cannot be told", age)
	}
	return fmt.Sprintf("errors are known for the last %v only (a restart?): what is new cannot be told", age)
}

const (
	// minSilence is how long no error of new kinds may have come for them to have
	// ended.
	minSilence = 5 * time.Second
	// minMissed is how many would have come in it: none by chance with a probability
	// of exp(-10) (Poisson).
	minMissed = 10
)

// ended is 1 if there were errors of new kinds that match, and there are none any more.
func (v *view) ended(match func(*kind) bool) probes.Number {
	var first, last time.Time
	count := 0.0
	for _, k := range v.kinds {
		if k.newness != fresh || !match(k) {
			continue
		}
		if count == 0 || k.first.Before(first) {
			first = k.first
		}
		last = later(last, k.last)
		count += float64(k.latest)
	}
	silence := v.now.Sub(last)
	rate := count / max(last.Sub(first).Seconds(), 1)
	if count > 0 && silence >= minSilence && rate*silence.Seconds() >= minMissed {
		return probes.Known(1)
	}
	return probes.Known(0)
}

// fresh counts the kinds that are new, and their errors, among those that
// match. It is unknown when none is known to be new and some are unclear.
func (v *view) fresh(match func(*kind) bool) (kinds, count probes.Number) {
	var groups, errs float64
	blind := false
	for _, k := range v.kinds {
		switch {
		case !match(k):
		case k.newness == fresh:
			groups++
			errs += float64(k.latest)
		case k.newness == unclear:
			blind = true
		}
	}
	if blind && groups == 0 {
		lost := probes.Absent(v.forgotten())
		return lost, lost
	}
	return probes.Known(groups), probes.Known(errs)
}
