package traffic

import (
	"slices"
	"time"
)

const (
	// slot is the time over which one rate is taken.
	slot = 5 * time.Second
	// slots is how many are kept: a quarter of an hour.
	slots = 180
	// recent is how many of the last whole slots are the present; what is
	// older is the baseline.
	recent = 2
	// apart is how many slots before them belong to neither: an alert takes
	// that long to fire.
	apart = 4
	// minBaseline is how many slots a baseline needs.
	minBaseline = 6
)

// rates counts events in slots of time. It is not safe for concurrent use.
type rates struct {
	counts [slots]float64
	first  int64 // number of the first slot that was seen whole
	last   int64 // number of the slot that runs
}

func newRates(now time.Time) *rates {
	n := number(now)
	return &rates{first: n + 1, last: n}
}

func number(t time.Time) int64 { return t.UnixNano() / int64(slot) }

// turn empties the slots that have begun since.
func (r *rates) turn(now time.Time) {
	n := number(now)
	switch {
	case n == r.last-1: // overtaken by a later request on its way here
		return
	case n < r.last: // the clock went back: nothing is known of before
		*r = *newRates(now)
		return
	}
	for i := r.last + 1; i <= n && i <= r.last+slots; i++ {
		r.counts[i%slots] = 0
	}
	r.last = n
}

func (r *rates) add(now time.Time) {
	r.turn(now)
	r.counts[r.last%slots]++
}

// rate is events per second of late, and known false while that is too short.
func (r *rates) rate(now time.Time) (perSecond float64, known bool) {
	r.turn(now)
	values := r.between(r.last-recent, r.last)
	if len(values) < recent {
		return 0, false
	}
	return mean(values), true
}

// baseline is the median of the rates of the quarter of an hour before, and the
// time that it is of.
func (r *rates) baseline(now time.Time) (perSecond float64, over time.Duration) {
	r.turn(now)
	values := r.between(r.last-slots+1, r.last-recent-apart)
	if len(values) < minBaseline {
		return 0, 0
	}
	slices.Sort(values)
	return values[len(values)/2], time.Duration(len(values)) * slot
}

// between returns the rates of the slots that were seen whole, from the first on
// and before the second.
func (r *rates) between(from, to int64) []float64 {
	var values []float64
	for i := max(from, r.first); i < to; i++ {
		values = append(values, r.counts[i%slots]/slot.Seconds())
	}
	return values
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
