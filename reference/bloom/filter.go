// Package bloom is the first layer of a check: a Bloom filter over all
// registered names. Where it says "no", the name is certainly free and no
// other layer is asked. It is safe for concurrent use, counts who writes to it,
// and is rebuilt by filling a second generation while the first one answers.
package bloom

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Source says who adds a name.
type Source int

// The sources. Only a build and a committed registration may write; Query is
// there to be counted when somebody breaks that rule.
const (
	Build Source = iota
	Register
	Query
)

const sources = 3

// String returns the source as the diagnostic contract spells it.
func (s Source) String() string {
	switch s {
	case Build:
		return "build"
	case Register:
		return "register"
	case Query:
		return "query"
	}
	return fmt.Sprintf("source(%d)", int(s))
}

// Filter is a Bloom filter that can be rebuilt while it is used.
type Filter struct {
	current atomic.Pointer[generation]

	// mu orders writers against the two moments of a rebuild: a writer sees
	// either both generations or the one that is left. Tests take no lock.
	mu   sync.RWMutex
	next *generation // being filled; nil otherwise

	rebuilding sync.Mutex
}

// New returns an empty filter, generation 0; the first Rebuild makes generation 1. It
// fails when p is impossible.
func New(p Params) (*Filter, error) {
	g, err := newGeneration(0, p, time.Now())
	if err != nil {
		return nil, err
	}
	f := new(Filter)
	f.current.Store(g)
	return f, nil
}

// Test says whether name may be in the filter; false is certain. The name must
// be canonical.
func (f *Filter) Test(name string) bool {
	return f.current.Load().test(hash(name))
}

// TestAll tests names against one generation and returns the indexes of those
// that may be in it, with the number of the generation.
func (f *Filter) TestAll(names []string) (generation uint64, maybe []int) {
	g := f.current.Load()
	maybe = []int{}
	for i, n := range names {
		if g.test(hash(n)) {
			maybe = append(maybe, i)
		}
	}
	return g.number, maybe
}

// Add puts name into the filter and, during a rebuild, into the next
// generation too.
func (f *Filter) Add(name string, by Source) {
	h := hash(name)
	f.each(func(g *generation) { g.add(h, by) })
}

// CountRegistration notes a committed registration, for the comparison of
// names added with names registered.
func (f *Filter) CountRegistration() {
	f.each(func(g *generation) { g.registrations.Add(1) })
}

func (f *Filter) each(do func(*generation)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	do(f.current.Load())
	if f.next != nil {
		do(f.next)
	}
}

// Rebuild fills a new generation made for p by calling fill with a function
// that adds one name, and then switches to it. Meanwhile the old generation
// answers, and what others Add goes into both, so nothing written during the
// rebuild is lost as long as fill starts to read only after it was called. On
// an error the old generation stays. Rebuilds wait for each other.
func (f *Filter) Rebuild(ctx context.Context, p Params, fill func(ctx context.Context, add func(name string)) error) error {
	f.rebuilding.Lock()
	defer f.rebuilding.Unlock()
	next, err := newGeneration(f.current.Load().number+1, p, time.Now())
	if err != nil {
		return err
	}
	f.setNext(next)
	if err := fill(ctx, func(name string) { next.add(hash(name), Build) }); err != nil {
		f.setNext(nil)
		return fmt.Errorf("fill filter generation %d: %w", next.number, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current.Store(next)
	f.next = nil
	return nil
}

func (f *Filter) setNext(g *generation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = g
}

// Params returns what the current generation was built for.
func (f *Filter) Params() Params { return f.current.Load().params }

// Stats describe the current generation.
type Stats struct {
	Bits    uint64 // m
	Hashes  uint64 // k
	Params  Params
	SetBits uint64
	// Added counts Add calls by source, indexed by Source.
	Added [sources]uint64
	// Registrations counts committed registrations since BuiltAt.
	Registrations uint64
	Generation    uint64
	// BuiltAt is when the generation was opened for writing.
	BuiltAt time.Time
}

// NamesAdded returns the sum over all sources.
func (s Stats) NamesAdded() uint64 {
	var n uint64
	for _, a := range s.Added {
		n += a
	}
	return n
}

// Stats reads the current generation. It counts all bits, without stopping
// anybody.
func (f *Filter) Stats() Stats {
	g := f.current.Load()
	s := Stats{
		Bits: g.m, Hashes: g.k, Params: g.params, SetBits: g.setBits(),
		Registrations: g.registrations.Load(), Generation: g.number, BuiltAt: g.builtAt,
	}
	for i := range g.added {
		s.Added[i] = g.added[i].Load()
	}
	return s
}

// Generation returns the number of the current generation.
func (f *Filter) Generation() uint64 { return f.current.Load().number }
