package shard

import (
	"slices"
	"sync"
	"time"
)

const (
	// keyCounters is the number of counters c of a summary: the error of a count is at most total/c. Ten to fifty counters
	// for each key that is shown keep the order of the first twenty right.
	keyCounters = 1000
	// KeyWindow is the length of one window of [TopKeys].
	KeyWindow = 60 * time.Second
	// maxTopKeys is the number of keys that Stats tells.
	maxTopKeys = 20
)

// TopKeys is a ranking of the keys most asked for since a moment, with honest bounds. It covers the running window and,
// while that is younger than half of [KeyWindow], the window before it.
type TopKeys struct {
	// Since is when the counting began.
	Since time.Time
	// Total is the number of events since then, exactly.
	Total uint64
	// Counters is c: no error exceeds Total/c, and among the keys known is every one with more than Total/c events.
	Counters int
	// Keys are the first keys, by descending count.
	Keys []KeyCount
}

// KeyCount is one key: its true count lies in [Count-Error, Count].
type KeyCount struct {
	Key          string
	Count, Error uint64
}

// keyStripes is how many counts are kept side by side, for as many goroutines at a time.
const keyStripes = 4

// keyWindows counts keys in alternating windows. It is safe for concurrent use.
//
// A name that everybody wants must not make everybody wait: an event is counted in the first stripe that nobody else is
// counting in, whatever its key, and the stripes are added up when they are read. The bounds hold for the sum: the errors of
// the stripes add up as their totals do.
type keyWindows struct {
	began   time.Time
	stripes [keyStripes]keyStripe
}

func newKeyWindows(now time.Time) *keyWindows {
	w := &keyWindows{began: now}
	for i := range w.stripes {
		w.stripes[i].start, w.stripes[i].current, w.stripes[i].previous = now, newSummary(keyCounters), newSummary(keyCounters)
	}
	return w
}

// observe counts one event.
func (w *keyWindows) observe(key string, now time.Time) {
	s := w.free()
	s.turn(now)
	s.current.add(key)
	s.mu.Unlock()
}

// free locks a stripe: the first that is free, for it is warm in the cache, else the last.
func (w *keyWindows) free() *keyStripe {
	last := len(w.stripes) - 1
	for i := range last {
		if s := &w.stripes[i]; s.mu.TryLock() {
			return s
		}
	}
	s := &w.stripes[last]
	s.mu.Lock()
	return s
}

// keyStripe is one of the counts of a keyWindows.
type keyStripe struct {
	mu                sync.Mutex
	start             time.Time // of current
	current, previous *summary
	_                 [64]byte // keeps the next one's lock out of this one's cache line
}

// turn begins a new window when the current one is over. Windows follow each other without a gap, so that what Since
// says is true after a long silence too, and at the same moments in every stripe.
func (s *keyStripe) turn(now time.Time) {
	age := now.Sub(s.start)
	if age < KeyWindow {
		return
	}
	s.current, s.previous = s.previous, s.current
	s.current.reset()
	if age >= 2*KeyWindow {
		s.previous.reset()
	}
	s.start = s.start.Add(age.Truncate(KeyWindow))
}

// top tells the n first keys.
func (w *keyWindows) top(n int, now time.Time) TopKeys {
	t := w.read(now)
	sortKeys(t.Keys)
	t.Keys = slices.Clone(t.Keys[:min(n, len(t.Keys))])
	return t
}

// read adds up the stripes, all at one moment, and tells every key that they know.
func (w *keyWindows) read(now time.Time) TopKeys {
	for i := range w.stripes {
		s := &w.stripes[i]
		s.mu.Lock()
		defer s.mu.Unlock()
		s.turn(now)
	}
	start := w.stripes[0].start
	t := TopKeys{Since: start, Counters: keyCounters}
	young := now.Sub(start) < KeyWindow/2 && start.After(w.began)
	if young {
		t.Since = start.Add(-KeyWindow)
	}
	parts := make([]*summary, 0, 2*len(w.stripes))
	for i := range w.stripes {
		parts = append(parts, w.stripes[i].current)
		if young {
			parts = append(parts, w.stripes[i].previous)
		}
	}
	for _, p := range parts {
		t.Total += p.total
	}
	t.Keys = merge(parts...)
	return t
}
