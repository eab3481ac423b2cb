package probes

import (
	"math"
	"slices"
	"sync"
	"time"
)

// History remembers the latest values of facts, one column of numbers for each
// fact. Its size is bounded by the slots and by the number of different facts. It
// is safe for concurrent use.
type History struct {
	mu      sync.Mutex
	times   []time.Time // a ring, with the monotonic part: a step of the clock moves nothing
	next    int
	full    bool
	columns map[string][]float64 // NaN where a fact was not measured: a gap, not a zero
}

// NewHistory returns a History of the last slots samples.
func NewHistory(slots int) *History {
	return &History{times: make([]time.Time, slots), columns: make(map[string][]float64)}
}

// Record takes down the values that facts, by any names, had at a time. Facts that
// are left out have a gap there. Times must not go back.
func (h *History) Record(at time.Time, values map[string]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.times[h.next] = at
	for name, column := range h.columns {
		v, ok := values[name]
		if !ok {
			v = math.NaN()
		}
		column[h.next] = v
	}
	for name, v := range values {
		if _, ok := h.columns[name]; !ok {
			column := slices.Repeat([]float64{math.NaN()}, len(h.times))
			column[h.next] = v
			h.columns[name] = column
		}
	}
	h.next++
	if h.next == len(h.times) {
		h.next, h.full = 0, true
	}
}

// Len returns how many samples are remembered, and of how many facts.
func (h *History) Len() (samples, facts int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.len(), len(h.columns)
}

func (h *History) len() int {
	if h.full {
		return len(h.times)
	}
	return h.next
}

// Onset returns since when a fact has had the level that its value now shows. It
// returns nil when the fact did not move while it was remembered, or is not
// remembered long enough.
func (h *History) Onset(name string, value float64, now time.Time) *Onset {
	h.mu.Lock()
	defer h.mu.Unlock()
	column, ok := h.columns[name]
	if !ok {
		return nil
	}
	n := h.len()
	values, times := make([]float64, 0, n+1), make([]time.Time, 0, n+1)
	for i := range n {
		at := i
		if h.full {
			at = (h.next + i) % n
		}
		if v := column[at]; !math.IsNaN(v) && h.times[at].Before(now) {
			values, times = append(values, v), append(times, h.times[at])
		}
	}
	values, times = append(values, value), append(times, now)
	c, moved := lastChange(values)
	if !moved {
		return nil
	}
	// The age is measured without the wall clock and told in today's.
	at := now.Add(-now.Sub(times[c.at])).Round(0)
	return &Onset{At: at, Before: c.before, After: c.after}
}
