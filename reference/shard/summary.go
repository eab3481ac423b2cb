package shard

import (
	"hash/maphash"
	"slices"
	"strings"
)

// summary finds the frequent keys of a stream in fixed memory: Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005) with
// its evictions done in batches. The classic form keeps c counters in a heap and, for each unknown key, evicts the
// smallest. Here up to 2c counters fill up and then the c smallest go at once. The largest count ever evicted is the
// floor: an unknown key has been seen at most floor times, so that one that comes back starts at floor+1 with floor as its
// error. The bounds are the classic ones:
//
//   - the true count of a key lies in [count-error, count];
//   - floor <= total/c. Take what all counters hold above the floor: an event adds one to it, raising the floor by d takes
//     d from each of the c+1 counters that are not smaller than the new floor, and it never falls below zero. (The argument
//     known from Misra-Gries, whose twin Space-Saving is: Agarwal et al., Mergeable Summaries, PODS 2012.)
//   - hence every key with more than total/c events has a counter.
//
// Without a heap an event costs one probe of a small hash table. It is not safe for concurrent use.
type summary struct {
	c       int
	total   uint64
	floor   uint64
	entries []entry
	index   []int32 // open addressing with linear probing: 1 + position in entries, 0 = free
	seed    maphash.Seed
	scratch []uint64
}

type entry struct {
	hash         uint64
	key          string
	count, error uint64
}

// newSummary makes a summary of c counters whose error is at most total/c.
func newSummary(c int) *summary {
	slots := 1
	for slots < 4*c { // at most half full
		slots *= 2
	}
	return &summary{c: c, entries: make([]entry, 0, 2*c), index: make([]int32, slots), seed: maphash.MakeSeed()}
}

// add counts one event of key.
func (s *summary) add(key string) {
	s.total++
	hash := maphash.String(s.seed, key)
	slot, found := s.find(hash, key)
	if found {
		s.entries[s.index[slot]-1].count++
		return
	}
	if len(s.entries) == 2*s.c {
		s.evict()
		slot, _ = s.find(hash, key)
	}
	// The key may be a piece of a request a thousand times its size, which must not live as long as the key.
	s.entries = append(s.entries, entry{hash: hash, key: strings.Clone(key), count: s.floor + 1, error: s.floor})
	s.index[slot] = int32(len(s.entries))
}

// find returns the slot of the key, or the free slot where it belongs. The hash is seeded, so that nobody can choose names
// that all meet in one slot.
func (s *summary) find(hash uint64, key string) (slot int, found bool) {
	mask := len(s.index) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		at := s.index[i]
		if at == 0 {
			return i, false
		}
		if e := &s.entries[at-1]; e.hash == hash && e.key == key {
			return i, true
		}
	}
}

// evict drops at least the c smallest of the 2c counters and raises the floor to the largest of them.
func (s *summary) evict() {
	s.floor = s.smallest(s.c)
	s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return e.count <= s.floor })
	clear(s.index)
	mask := len(s.index) - 1
	for at := range s.entries {
		i := int(s.entries[at].hash) & mask
		for s.index[i] != 0 {
			i = (i + 1) & mask
		}
		s.index[i] = int32(at + 1)
	}
}

// smallest is the n-th smallest count. No count is below the floor, and most are little above it: those are counted, which
// takes a tenth of what it takes to sort them.
func (s *summary) smallest(n int) uint64 {
	var above [32]int // how many counts are so far above the floor; the last, so far or further
	for i := range s.entries {
		above[min(s.entries[i].count-s.floor, uint64(len(above)-1))]++
	}
	for distance, left := 0, n; distance < len(above)-1; distance++ {
		if left -= above[distance]; left <= 0 {
			return s.floor + uint64(distance)
		}
	}
	s.scratch = s.scratch[:0]
	for i := range s.entries {
		s.scratch = append(s.scratch, s.entries[i].count)
	}
	slices.Sort(s.scratch)
	return s.scratch[n-1]
}

// reset forgets everything and keeps the memory.
func (s *summary) reset() {
	s.total, s.floor = 0, 0
	clear(s.entries) // lets go of the keys
	s.entries = s.entries[:0]
	clear(s.index)
}

// merge lists the counters of summaries of one stream's parts, in no order. A key that one of them does not know may have been
// seen by it as often as its floor allows; the errors add up and so do their bounds: no error exceeds the sum of the floors,
// which is at most the sum of the totals, divided by c, and every key with more events than that has a counter somewhere.
func merge(parts ...*summary) []KeyCount {
	var floors uint64
	for _, s := range parts {
		floors += s.floor
	}
	var all []KeyCount
	at := map[string]int{}
	for _, s := range parts {
		for _, e := range s.entries {
			i, known := at[e.key]
			if !known {
				i = len(all)
				at[e.key] = i
				all = append(all, KeyCount{Key: e.key, Count: floors, Error: floors})
			}
			all[i].Count += e.count - s.floor
			all[i].Error -= s.floor - e.error
		}
	}
	return all
}
