// Package traffic knows what kind of traffic a service has: how many different
// names and addresses it comes from and goes to, how much of it is one
// address's, and how that compares with the quarter of an hour before. It keeps
// sketches, in bounded memory, and no names; addresses leave it as pseudonyms.
package traffic

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// window is the time that the sketches cover, and up to as much again.
	window = 30 * time.Second
	// maxTop is how many addresses are told of.
	maxTop = 10
)

// Kind is what is asked for.
type Kind int

// The kinds.
const (
	Check Kind = iota
	Register
	kinds
)

// Watch watches the traffic. It is safe for concurrent use.
type Watch struct {
	seed maphash.Seed

	mu                sync.Mutex
	start, before     time.Time // of current and previous
	current, previous *sketch
	rates             [kinds]*rates
}

// sketch is what is known of one window.
type sketch struct {
	requests       [kinds]uint64
	names, sources distinct
	frequent       *frequent
	lookups        uint64
	looked         distinct // names that were looked up
}

func (s *sketch) reset() {
	s.requests, s.lookups = [kinds]uint64{}, 0
	s.names.reset()
	s.sources.reset()
	s.looked.reset()
	s.frequent.reset()
}

// New returns a watch that begins now.
func New(now time.Time) *Watch {
	w := &Watch{
		seed: maphash.MakeSeed(), start: now, before: now,
		current: &sketch{frequent: newFrequent()}, previous: &sketch{frequent: newFrequent()},
	}
	for k := range w.rates {
		w.rates[k] = newRates(now)
	}
	return w
}

// Asked notes a request about a name. An invalid address is none.
func (w *Watch) Asked(k Kind, name string, from netip.Addr, now time.Time) {
	hash := maphash.String(w.seed, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	w.rates[k].add(now)
	s := w.current
	s.requests[k]++
	s.names.add(hash)
	if from.IsValid() {
		s.sources.add(maphash.Comparable(w.seed, from))
		s.frequent.add(from)
	}
}

// LookedUp notes that a back end was asked for a name.
func (w *Watch) LookedUp(name string, now time.Time) {
	hash := maphash.String(w.seed, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	w.current.lookups++
	w.current.looked.add(hash)
}

// turn begins a new window when the current one is over.
func (w *Watch) turn(now time.Time) {
	age := now.Sub(w.start)
	if age < window && age >= -slot { // requests overtake each other on their way here
		return
	}
	w.current, w.previous = w.previous, w.current
	w.current.reset()
	w.before, w.start = w.start, now
	if age >= 2*window || age < -slot { // the last one is too old to be told of
		w.previous.reset()
		w.before = now
	}
}

// Stats is the traffic since a moment.
type Stats struct {
	Since             time.Time
	Checks, Registers uint64
	// Names and Sources estimate how many different ones there were, give or
	// take 3 % (95 %: two standard errors).
	Names, Sources float64
	// Lookups counts the requests to the back ends, LookedUp estimates for how
	// many different names.
	Lookups  uint64
	LookedUp float64
	// Addressed counts the requests whose address is known.
	Addressed uint64
	// Top are the addresses that most requests came from.
	Top []Source
	// Rates are by kind.
	Rates [kinds]Rate
}

// Source is one address. Its true count lies in [Requests, Requests+Error].
type Source struct {
	Pseudonym       string
	Requests, Error uint64
}

// Rate is requests per second of late and in the quarter of an hour before.
type Rate struct {
	PerSecond float64
	Known     bool
	// Baseline is the median; Over is 0 where there is none yet.
	Baseline float64
	Over     time.Duration
}

// Stats tells of the traffic of the last half minute to minute.
func (w *Watch) Stats(now time.Time) Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	a, b := w.current, w.previous
	out := Stats{
		Since:  w.before,
		Checks: a.requests[Check] + b.requests[Check], Registers: a.requests[Register] + b.requests[Register],
		Names: estimate(&a.names, &b.names), Sources: estimate(&a.sources, &b.sources),
		Lookups: a.lookups + b.lookups, LookedUp: estimate(&a.looked, &b.looked),
		Addressed: a.frequent.total + b.frequent.total,
		Top:       w.top(a.frequent, b.frequent),
	}
	for k, r := range w.rates {
		rate := &out.Rates[k]
		rate.PerSecond, rate.Known = r.rate(now)
		rate.Baseline, rate.Over = r.baseline(now)
	}
	return out
}

// top returns the addresses with the most requests. The pseudonym of one is the
// same as long as the service runs, and tells nothing about it.
func (w *Watch) top(a, b *frequent) []Source {
	counts := make(map[netip.Addr]uint64, len(a.counts)+len(b.counts))
	for _, f := range []*frequent{a, b} {
		for addr, n := range f.counts {
			counts[addr] += n
		}
	}
	top := make([]Source, 0, len(counts))
	for addr, n := range counts {
		name := fmt.Sprintf("%08x", uint32(maphash.Comparable(w.seed, addr)))
		top = append(top, Source{Pseudonym: name, Requests: n, Error: a.lost + b.lost})
	}
	slices.SortFunc(top, func(x, y Source) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Pseudonym, y.Pseudonym))
	})
	return slices.Clone(top[:min(maxTop, len(top))])
}
