package reference

import (
	"sort"
	"sync/atomic"
	"time"
)

// LatencyBounds are the upper bounds of the buckets of all latency histograms,
// in seconds.
func LatencyBounds() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}
}

// latencyBuckets is one more than there are bounds.
const latencyBuckets = 12

// Leg is a part of a request that is spent in one layer.
type Leg int

// The legs. What the filter and the local cache take is not worth the time that
// it takes to time it.
const (
	CheckRedis Leg = iota
	CheckShard
	RegisterID
	RegisterShard
	RegisterRedis
	RegisterFollowUp
	legs
)

// Endpoint is the endpoint whose requests the leg is a part of.
func (l Leg) Endpoint() string {
	if l <= CheckShard {
		return "check"
	}
	return "register"
}

// Layer is the layer that the time is spent in.
func (l Leg) Layer() string {
	return [legs]string{"redis", "shard", "id", "shard", "redis", "followup"}[l]
}

// Spent is how long the calls of one leg took.
type Spent struct {
	Leg    Leg
	Calls  uint64
	Busy   time.Duration
	Counts []uint64 // by LatencyBounds, not cumulative, one more for what is above
}

// timing times the legs of requests. It is safe for concurrent use.
type timing struct {
	bounds [latencyBuckets - 1]float64
	legs   [legs]struct {
		busy   atomic.Int64
		counts [latencyBuckets]atomic.Uint64
	}
}

// since notes that a leg began at start and is over.
func (t *timing) since(l Leg, start time.Time) {
	took := time.Since(start)
	leg := &t.legs[l]
	leg.busy.Add(int64(took))
	leg.counts[sort.SearchFloat64s(t.bounds[:], took.Seconds())].Add(1)
}

// Spent tells where the time of requests went since the start.
func (s *Service) Spent() []Spent {
	out := make([]Spent, legs)
	for l := range out {
		leg := &s.timing.legs[l]
		out[l] = Spent{Leg: Leg(l), Busy: time.Duration(leg.busy.Load()), Counts: make([]uint64, latencyBuckets)}
		for i := range leg.counts {
			n := leg.counts[i].Load()
			out[l].Counts[i] = n
			out[l].Calls += n
		}
	}
	return out
}

// Lookups counts what the shards answered to checks.
type Lookups struct{ Found, Missing uint64 }

// lookups counts them. It is safe for concurrent use.
type lookups struct{ found, missing atomic.Uint64 }

func (l *lookups) count(found bool) {
	if found {
		l.found.Add(1)
	} else {
		l.missing.Add(1)
	}
}

// Lookups tells what the shards answered to checks since the start.
func (s *Service) Lookups() Lookups {
	return Lookups{Found: s.lookups.found.Load(), Missing: s.lookups.missing.Load()}
}
