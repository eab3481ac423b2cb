package reference

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// The layout of a user id, from the top: 41 bits of milliseconds, 10 bits of
// machine, 12 bits of sequence.
const (
	machineBits  = 10
	sequenceBits = 12
	maxMachine   = 1<<machineBits - 1
	maxSequence  = 1<<sequenceBits - 1
	maxMillis    = 1<<41 - 1
)

// IDs makes user ids that only grow and never repeat within one machine
// number. It is safe for concurrent use.
type IDs struct {
	machine int64
	now     func() time.Time
	epoch   time.Time

	mu       sync.Mutex
	millis   int64
	sequence int64
}

// NewIDs returns a generator for the machine number given, 0 to 1023. now is
// the clock, usually time.Now.
func NewIDs(machine int, now func() time.Time) (*IDs, error) {
	if machine < 0 || machine > maxMachine {
		return nil, fmt.Errorf("machine number must lie between 0 and %d, got %d", maxMachine, machine)
	}
	return &IDs{machine: int64(machine), now: now, epoch: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}, nil
}

// Next returns the next id. When the clock stands still or goes back, ids go on
// from the last millisecond used and borrow from the future where its 4096
// numbers are spent: nobody waits and nothing repeats. It fails only when the
// 41 bits are spent, in 2093.
func (g *IDs) Next() (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch now := g.now().Sub(g.epoch).Milliseconds(); {
	case now > g.millis:
		g.millis, g.sequence = now, 0
	case g.sequence < maxSequence:
		g.sequence++
	default:
		g.millis, g.sequence = g.millis+1, 0
	}
	if g.millis > maxMillis {
		return 0, errors.New("user ids are spent")
	}
	return g.millis<<(machineBits+sequenceBits) | g.machine<<sequenceBits | g.sequence, nil
}
