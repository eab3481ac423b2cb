package shards

import (
	"cmp"
	"math"
	"slices"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// minRequests is how many requests the shares need: with 200 on four
	// shards the standard error of an even share is 3 points.
	minRequests = 200
	// minTimed is how many requests the mean time of a shard needs.
	minTimed = 20
	// minFailing is how many requests it takes to call a shard failing.
	minFailing = 10
	// failingRatio is the error ratio above which a shard is failing.
	failingRatio = 0.5
)

// load is what one shard did over the span, and its state at both ends.
type load struct {
	first, last              source.Shard
	requests, errors, busy   probes.Number
	share, latency, failures probes.Number
	// used is how much of the pool is in use, and queue how many wait for it, at the
	// lower of the samples.
	used, queue probes.Number
}

// compare pairs the shards of two readings. A shard that the second reading no
// longer has, or newly has, has no known load.
func compare(first, last reading, span source.Span) []load {
	before := make(map[string]source.Shard, len(first.Doc.Shards))
	for _, s := range first.Doc.Shards {
		before[s.Shard] = s
	}
	loads := make([]load, 0, len(last.Doc.Shards))
	total := probes.Known(0)
	for _, s := range last.Doc.Shards {
		l := load{first: s, last: s}
		was, ok := before[s.Shard]
		if ok {
			l.first = was
			l.requests = span.Delta(was.Requests, s.Requests)
			l.errors = span.Delta(was.Errors, s.Errors)
			l.busy = span.Delta(was.BusySeconds, s.BusySeconds)
			l.queue = span.Lower(was.Pool.Pending, s.Pool.Pending)
			l.used = span.Lower(was.Pool.InUse, s.Pool.InUse).Over(s.Pool.Size, "the pool has no size")
		} else {
			unknown := probes.Unknown("the list of shards changed between the samples")
			l.requests, l.errors, l.busy, l.queue, l.used = unknown, unknown, unknown, unknown, unknown
		}
		l.latency = l.busy.Over(l.requests.AtLeast(minTimed, "fewer than 20 requests to the shard in the window"), "")
		l.failures = l.errors.Over(l.requests.AtLeast(minFailing, "fewer than 10 requests to the shard in the window"), "").Clamp(0, 1)
		total = total.Plus(l.requests)
		loads = append(loads, l)
	}
	enough := total.AtLeast(minRequests, "fewer than 200 requests in the window")
	for i := range loads {
		loads[i].share = loads[i].requests.Over(enough, "")
	}
	return loads
}

// fails is 1 if most requests to the shard fail and 0 if not. A few requests tell
// it only if none of them failed.
func (l load) fails() probes.Number {
	switch ratio, ok := l.failures.Get(); {
	case l.errors.Or(1) == 0 || ok && ratio <= failingRatio:
		return probes.Known(0)
	case ok:
		return probes.Known(1)
	}
	return l.failures
}

// failing reports whether most requests to the shard fail.
func (l load) failing() bool { return l.fails().Or(0) > 0 }

// recordLoads records how requests, errors and time spread over the shards.
func recordLoads(rec *probes.Recorder, loads []load, span source.Span) {
	count := probes.Known(float64(len(loads)))
	rec.Set("shards_total", count)
	requests, failed, failing, all := probes.Known(0), probes.Known(0), probes.Known(0), probes.Known(0)
	for _, l := range loads {
		requests = requests.Plus(l.requests)
		failed = failed.Plus(l.errors)
		failing = failing.Plus(probes.Known(l.fails().Or(0)))
		all = all.Plus(l.fails())
	}
	if failing.Or(0) == 0 { // which those that do not tell may make more of
		failing = all
	}
	rec.Set("failing", failing)
	rec.Set("requests_rate", span.PerSecond(requests))
	rec.Set("error_ratio", failed.Over(requests, "no requests in the window").Clamp(0, 1))
	share := busiest(loads).share
	rec.Set("max_share", share)
	rec.Set("max_share_z_score", zScore(share, requests, count))
	rec.Set("max_share_over_even", share.Times(count))
	recordLatency(rec, loads)
}

// zScore is by how many standard errors a share of requests is above an even one.
// As many as come to a shard by chance, by as many they vary, squared (Poisson).
func zScore(share, requests, shards probes.Number) probes.Number {
	even, ok := requests.Over(shards, "no shards").Get()
	if !ok {
		return share
	}
	return share.Times(requests).Minus(probes.Known(even)).Over(probes.Known(math.Sqrt(even)), "no requests in the window")
}

// recordLatency records the slowest shard against the others.
func recordLatency(rec *probes.Recorder, loads []load) {
	slowest, at := loads[0].latency, 0
	for i, l := range loads {
		if l.latency.Or(-1) > slowest.Or(-1) {
			slowest, at = l.latency, i
		}
	}
	var others []float64
	for i, l := range loads {
		if v, ok := l.latency.Get(); ok && i != at {
			others = append(others, v)
		}
	}
	rec.Set("latency_max_seconds", slowest)
	if v, ok := slowest.Get(); ok {
		rec.Row(probes.Row{Table: tableSlowest, Key: clip(loads[at].last.Shard), Value: v, Unit: probes.Seconds})
	}
	median := slowest // its reason, where it is unknown
	if _, ok := slowest.Get(); ok {
		median = probes.Median(others)
		if len(others) == 0 {
			median = probes.Absent("no other shard had 20 requests in the window")
		}
	}
	rec.Set("latency_median_seconds", median)
	rec.Set("latency_skew", slowest.Over(median, "the other shards' requests took no time"))
}

// busiest returns the shard with the most requests; without a window, the one
// whose keys were counted most.
func busiest(loads []load) load {
	return slices.MaxFunc(loads, func(a, b load) int {
		if c := cmp.Compare(a.requests.Or(-1), b.requests.Or(-1)); c != 0 {
			return c
		}
		return cmp.Compare(a.keys().Total.Or(-1), b.keys().Total.Or(-1))
	})
}
