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

// keyWindows counts keys in alternating windows. It is safe for concurrent use.
type keyWindows struct {
	began             time.Time
	mu                sync.Mutex
	start             time.Time // of current
	current, previous *summary
}

func newKeyWindows(now time.Time) *keyWindows {
	return &keyWindows{began: now, start: now, current: newSummary(keyCounters), previous: newSummary(keyCounters)}
}

// observe counts one event.
func (w *keyWindows) observe(key string, now time.Time) {
	w.mu.Lock()
	w.turn(now)
	w.current.add(key)
	w.mu.Unlock()
}

// turn begins a new window when the current one is over. Windows follow each other without a gap, so that what Since
// says is true after a long silence too.
func (w *keyWindows) turn(now time.Time) {
	age := now.Sub(w.start)
	if age < KeyWindow {
		return
	}
	w.current, w.previous = w.previous, w.current
	w.current.reset()
	if age >= 2*KeyWindow {
		w.previous.reset()
	}
	w.start = w.start.Add(age.Truncate(KeyWindow))
}

// top tells the n first keys.
func (w *keyWindows) top(n int, now time.Time) TopKeys {
	w.mu.Lock()
	w.turn(now)
	t := TopKeys{Since: w.start, Total: w.current.total, Counters: keyCounters}
	young := now.Sub(w.start) < KeyWindow/2
	if young && w.start.After(w.began) {
		t.Since, t.Total = w.start.Add(-KeyWindow), w.current.total+w.previous.total
		t.Keys = w.current.merged(w.previous)
	} else {
		t.Keys = w.current.counts()
	}
	w.mu.Unlock()

	sortKeys(t.Keys)
	t.Keys = slices.Clone(t.Keys[:min(n, len(t.Keys))])
	return t
}
