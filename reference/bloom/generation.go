package bloom

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/twmb/murmur3"
)

// generation is one bit array with its accounts. The array is allocated by
// bits-and-blooms and laid out and hashed as it does; the words are read and
// written atomically here, because the library has no lock and loses about one
// name in 80,000 when two goroutines add at once. The library's own Locations
// would allocate on every call.
//
// Atomic words were chosen over the library behind a RWMutex by measurement
// (BenchmarkConcurrency, two cores): see the figures there. No writer and no
// count of the bits ever stops a reader.
type generation struct {
	number  uint64
	params  Params
	builtAt time.Time
	m, k    uint64
	words   []uint64

	added         [sources]atomic.Uint64
	registrations atomic.Uint64
}

func newGeneration(number uint64, p Params, at time.Time) (*generation, error) {
	m, k, err := p.Size()
	if err != nil {
		return nil, err
	}
	set := bloom.New(m, k).BitSet()
	if set.Len() != m { // the library hides a failed allocation in an empty set
		return nil, fmt.Errorf("could not allocate a filter of %d bits", m)
	}
	return &generation{number: number, params: p, builtAt: at, m: uint64(m), k: uint64(k), words: set.Words()}, nil
}

// add sets the bits of a name and says whether one of them was not set before,
// that is, whether the filter is sure that the name is new.
func (g *generation) add(h hashes, by Source) (fresh bool) {
	fresh = g.set(h)
	g.added[by].Add(1)
	return fresh
}

// set sets the bits of a name and tells whether one of them was not set before.
func (g *generation) set(h hashes) (fresh bool) {
	for i := range g.k {
		at := h.location(i) % g.m
		bit := uint64(1) << (at & 63)
		if atomic.OrUint64(&g.words[at>>6], bit)&bit == 0 {
			fresh = true
		}
	}
	return fresh
}

func (g *generation) test(h hashes) bool {
	for i := range g.k {
		at := h.location(i) % g.m
		if atomic.LoadUint64(&g.words[at>>6])&(1<<(at&63)) == 0 {
			return false
		}
	}
	return true
}

// testAll returns the indexes of the names that may be in g.
func (g *generation) testAll(names []string) []int {
	maybe := []int{}
	for i, n := range names {
		if g.test(hash(n)) {
			maybe = append(maybe, i)
		}
	}
	return maybe
}

// setBits counts the bits that are set: about 60 ms for the 1.2 GB of
// 1,000,000,000 names at 1 % (BenchmarkBillion).
func (g *generation) setBits() uint64 {
	n := 0
	for i := range g.words {
		n += bits.OnesCount64(atomic.LoadUint64(&g.words[i]))
	}
	return uint64(n)
}

// bytes is the memory of the bit array.
func (g *generation) bytes() uint64 { return uint64(len(g.words)) * 8 }

// hashFamily names the function below in a snapshot: a filter is worthless to
// another one.
const hashFamily = 1

// hashes are the four base hashes of a name, as in bits-and-blooms: the two
// halves of Murmur3-128 of the name, and of the name with a byte 1 behind it.
type hashes [4]uint64

func hash(name string) hashes {
	var buf [80]byte // canonical names have at most 64 bytes: no allocation
	b := append(buf[:0], name...)
	var h hashes
	h[0], h[1] = murmur3.Sum128(b)
	h[2], h[3] = murmur3.Sum128(append(b, 1))
	return h
}

// location returns the i-th place of a name, before reduction modulo m.
func (h *hashes) location(i uint64) uint64 {
	return h[i%2] + i*h[2+((i+i%2)%4)/2]
}
