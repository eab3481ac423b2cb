// Package bloom is the first layer of a check: a Bloom filter over all
// registered names. Where it says "no", the name is certainly free and no
// other layer is asked. It is safe for concurrent use, counts who writes to it,
// is rebuilt by filling a second generation while the first one answers, and
// can be kept on disk between two runs.
//
// There is one write channel. A name gets in by a committed registration, here
// ([Filter.Add] with Register) or on another instance ([Filter.Learn]), or by
// being read from the shards ([Filter.Rebuild], [Filter.Restore]). The source
// Query exists so that a query path that writes can be told from them.
package bloom

import (
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

	rebuilding chan struct{} // holds one token while a generation is being filled
	progress   atomic.Pointer[progress]
	growth     growth
	mistake    atomic.Pointer[Mistake] // nil: none
}

// New returns an empty filter, generation 0; the first Rebuild makes generation 1. It
// fails when p is impossible.
func New(p Params) (*Filter, error) {
	now := time.Now()
	g, err := newGeneration(0, p, now)
	if err != nil {
		return nil, err
	}
	f := &Filter{rebuilding: make(chan struct{}, 1), growth: growth{since: now}}
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
	return g.number, g.testAll(names)
}

// Add puts name into the filter and, during a rebuild, into the next
// generation too.
func (f *Filter) Add(name string, by Source) {
	h, fate := f.entry(name)
	if fate == Dropped {
		return
	}
	f.each(func(g *generation, answers bool) {
		if fate == Torn {
			g.added[by].Add(1)
			return
		}
		if g.add(h, by) && answers {
			f.growth.count(time.Now())
		}
	})
}

// Learn puts a name into the filter that was registered on another instance.
// It counts as a registration, unless the filter has the name already: news
// may come more than once, and come back to where they began.
func (f *Filter) Learn(name string) {
	h, fate := f.entry(name)
	if fate != Entered {
		return
	}
	f.each(func(g *generation, answers bool) {
		if g.test(h) {
			return
		}
		g.registrations.Add(1)
		if g.add(h, Register) && answers {
			f.growth.count(time.Now())
		}
	})
}

// Know makes sure that the filter has a name of whose registration somebody
// else is about to tell it: it sets the bits and counts nothing, so that the
// name is counted once, by the teller.
func (f *Filter) Know(name string) {
	if h, fate := f.entry(name); fate == Entered {
		f.each(func(g *generation, _ bool) { g.set(h) })
	}
}

// CountRegistration notes a committed registration, for the comparison of
// names added with names registered.
func (f *Filter) CountRegistration() {
	f.each(func(g *generation, _ bool) { g.registrations.Add(1) })
}

// each runs do with the generation that answers and with the next one, if any.
func (f *Filter) each(do func(g *generation, answers bool)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	do(f.current.Load(), true)
	if f.next != nil {
		do(f.next, false)
	}
}

// Params returns what the current generation was built for.
func (f *Filter) Params() Params { return f.current.Load().params }

// Generation returns the number of the current generation.
func (f *Filter) Generation() uint64 { return f.current.Load().number }
