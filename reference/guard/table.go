package guard

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	ways       = 8 // entries per set
	maxEntries = 1 << 24
)

// table limits many keys in a fixed amount of memory. It is set-associative:
// the secret hash of a key picks a set of eight entries.
//
// When a set is full of entries in use, the newcomer takes the place of the
// least used one and carries its use on, as in the Space-Saving algorithm
// (Metwally and others, 2005). Whoever is evicted and comes back finds at least
// his own use on the account he then gets. So a flood of other keys resets
// nobody's limit, at any price. Its price is paid the other way: when all eight
// accounts of a set are spent, newcomers to it are refused. A flood must exhaust
// the limits of about as many keys as there are entries to get there.
type table struct {
	rate    rate
	seed    maphash.Seed
	start   time.Time
	sets    []set
	pressed atomic.Uint64 // evictions of entries in use
}

type set struct {
	mu      sync.Mutex
	entries [ways]entry
}

// entry is the account of one key. Two keys share one with a probability of
// about 2^-48 per request.
type entry struct {
	key     uint64
	instant int64 // see rate
	note    int64 // what else is known about the key; see nameLimit
}

func newTable(l Limit, entries int, start time.Time) (*table, error) {
	if entries < ways || entries > maxEntries {
		return nil, fmt.Errorf("room must be for %d to %d entries, got %d", ways, maxEntries, entries)
	}
	sets := 1
	for sets*ways < entries {
		sets *= 2
	}
	return &table{rate: l.rate(), seed: maphash.MakeSeed(), start: start, sets: make([]set, sets)}, nil
}

func (t *table) set(key uint64) *set { return &t.sets[key&uint64(len(t.sets)-1)] }

// since is an instant in the table's own time, which does not see the wall clock
// being set as long as the clock given has a monotonic reading.
func (t *table) since(at time.Time) int64 { return int64(at.Sub(t.start)) }

// take asks for one request of key. wait is 0 if it may pass; note is what was
// noted about the key.
func (t *table) take(key uint64, at time.Time) (wait time.Duration, note int64) {
	now := t.since(at)
	s := t.set(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(key)
	if e == nil {
		e = s.least()
		if e.instant > now {
			t.pressed.Add(1)
		}
		e.key, e.note = key, 0
	}
	next, w := t.rate.take(e.instant, now)
	e.instant = next
	return time.Duration(w), e.note
}

// update replaces the note about key, if there is an entry to note it in.
func (t *table) update(key uint64, change func(note int64) int64) {
	s := t.set(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(key); e != nil {
		e.note = change(e.note)
	}
}

func (s *set) find(key uint64) *entry {
	for i := range s.entries {
		if s.entries[i].key == key {
			return &s.entries[i]
		}
	}
	return nil
}

// least returns the least used entry. Unused ones are the least of all.
func (s *set) least() *entry {
	least := &s.entries[0]
	for i := range s.entries {
		if s.entries[i].instant < least.instant {
			least = &s.entries[i]
		}
	}
	return least
}

func (t *table) evicted() uint64 { return t.pressed.Load() }
