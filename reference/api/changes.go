package api

import (
	"sync"
	"time"
)

// changeCapacity is how many changes a ChangeLog keeps.
const changeCapacity = 100

// Change is a change of configuration, flags, build, scale or data.
type Change struct {
	At time.Time `json:"at"`
	// Kind is config, flag, deploy, scale or data.
	Kind string `json:"kind"`
	What string `json:"what"`
	// From and To must not hold secrets.
	From string `json:"from"`
	To   string `json:"to"`
	By   string `json:"by"`
}

// ChangeLog keeps the newest changes. It is safe for concurrent use.
type ChangeLog struct {
	mu      sync.Mutex
	changes []Change
}

// Record notes c with the present time.
func (l *ChangeLog) Record(c Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.At = time.Now()
	if len(l.changes) == changeCapacity {
		l.changes = append(l.changes[:0], l.changes[1:]...)
	}
	l.changes = append(l.changes, c)
}

func (l *ChangeLog) snapshot() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Change{}, l.changes...)
}
