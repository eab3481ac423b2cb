package load

import (
	"math"
	"math/bits"
	"time"
)

// Result is what came of a load.
type Result struct {
	// Elapsed is the time from the first request that was due to the last answer.
	Elapsed time.Duration
	// Sent counts the requests that went out. Each has a status in Check or Register, or is one of Errors. A check on a kept
	// connection that the checker closed is sent again on another, as browsers do, and counts once.
	Sent uint64
	// Dropped counts the requests that were due but never sent, because all workers were busy and a quarter of a second's
	// requests waited: the checker did not keep up, or the machine did not. Only a load of 0 dropped was the load that was
	// asked for.
	Dropped uint64
	// Check and Register count answers by HTTP status.
	Check, Register map[int]uint64
	// Errors counts requests without a complete answer, by reason: timeout, refused, reset, other.
	Errors map[string]uint64
	// Latency is over all requests sent, those that failed included.
	Latency Latency
}

// Latency holds percentiles of the time from the moment a request was due, not from when it could be sent, to the end of
// its answer: a checker that stalls is charged for everybody who would have waited (Tene's coordinated omission). Figures
// are at most 1/32 too high.
type Latency struct{ P50, P90, P99, P999, Max time.Duration }

// tally is the result of one worker.
type tally struct {
	sent, dropped   uint64
	check, register map[int]uint64
	errors          map[string]uint64
	latency         histogram
}

func newTally() tally {
	return tally{check: map[int]uint64{}, register: map[int]uint64{}, errors: map[string]uint64{}}
}

// sum adds up the workers' tallies.
func sum(tallies []tally) Result {
	r := Result{Check: map[int]uint64{}, Register: map[int]uint64{}, Errors: map[string]uint64{}}
	var all histogram
	for i := range tallies {
		t := &tallies[i]
		r.Sent += t.sent
		r.Dropped += t.dropped
		add(r.Check, t.check)
		add(r.Register, t.register)
		add(r.Errors, t.errors)
		all.merge(&t.latency)
	}
	r.Latency = Latency{P50: all.quantile(0.5), P90: all.quantile(0.9), P99: all.quantile(0.99), P999: all.quantile(0.999), Max: all.max}
	return r
}

func add[K comparable](to, from map[K]uint64) {
	for k, n := range from {
		to[k] += n
	}
}

// histogram counts durations in buckets that each power of two is cut into 32 of, so that any duration fits and none is
// told more than 1/32 too high.
type histogram struct {
	counts [(64 - histogramBits + 1) << histogramBits]uint64
	total  uint64
	max    time.Duration
}

const histogramBits = 5

// bucket is the index for n nanoseconds: below 64 the number itself, above that the exponent and the five bits that follow
// the leading one.
func bucket(n uint64) int {
	shift := max(0, bits.Len64(n)-histogramBits-1)
	return shift<<histogramBits + int(n>>shift)
}

// upper is the largest number of nanoseconds in a bucket.
func upper(index int) uint64 {
	shift := max(0, index>>histogramBits-1)
	return (uint64(index-shift<<histogramBits)+1)<<shift - 1
}

func (h *histogram) record(d time.Duration) {
	d = max(0, d)
	h.counts[bucket(uint64(d))]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// quantile is the smallest duration that at least the share q of all do not exceed, 0 without any.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.total)))
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if n > 0 && seen >= rank {
			return min(time.Duration(upper(i)), h.max)
		}
	}
	return 0
}
