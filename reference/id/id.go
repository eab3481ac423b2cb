// Package id makes user ids that only grow and never repeat: snowflakes of 41 bits of milliseconds, 10 bits of machine and
// 12 bits of sequence.
//
// The clock is not trusted. When it has gone back by a few milliseconds, a generator waits for it; when by more, it goes on
// from the last millisecond it has used, in its spare segment: each of the 512 machine numbers owns two segments, and that
// of the higher half, number+512, serves only then. What is left of a wrong clock, an error of more than [MaxBehind], is
// refused. A [Machine] says which number is the generator's, and for how long.
package id

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The layout of an id, from the top: 41 bits of milliseconds since 2024, 10 bits of segment, 12 bits of sequence.
const (
	segmentBits  = 10
	sequenceBits = 12
	maxSequence  = 1<<sequenceBits - 1
	maxMillis    = 1<<41 - 1

	// Machines is how many machine numbers there are: the half of the segments that are not spare.
	Machines = 1 << (segmentBits - 1)
)

const (
	// MaxWait is how long a generator waits for a clock that has gone back or stands still.
	MaxWait = 10 * time.Millisecond
	// MaxBehind is how far the clock may be behind the last id before there are none any more. NTP steps a clock by seconds;
	// what is wrong by more than a minute is broken.
	MaxBehind = time.Minute
)

// ErrClock says that there is no id because the clock is wrong: too far behind the ids that were given out.
var ErrClock = errors.New("the clock has gone back too far")

// epoch is the beginning of the milliseconds; it must never change.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Machine holds a machine number. It is safe for concurrent use.
type Machine interface {
	// Number is the number, from 0 to [Machines]-1, which is nobody else's as long as Covers says so.
	Number() int
	// Floor is a time up to which the number's former holder may have given out ids.
	Floor() time.Time
	// Covers returns nil while the number is surely held and ids of that millisecond may be given out, else an error. It
	// answers at once, from memory.
	Covers(at time.Time) error
	// Used tells the time of the latest id, for the next holder. It must not block.
	Used(at time.Time)
}

// Fixed is a machine number that somebody else has made sure is held once: a deployment that counts its instances.
type Fixed int

var _ Machine = Fixed(0)

// Number implements [Machine].
func (f Fixed) Number() int { return int(f) }

// Floor implements [Machine]: of former holders nothing is known.
func (f Fixed) Floor() time.Time { return time.Time{} }

// Covers implements [Machine].
func (f Fixed) Covers(time.Time) error { return nil }

// Used implements [Machine].
func (f Fixed) Used(time.Time) {}

// Stats tells how a generator has fared. All but Behind only grow.
type Stats struct {
	// Given counts the ids, Spare those among them from the spare segment.
	Given, Spare uint64
	// Waits counts the pauses for the clock, Refused the calls that got no id.
	Waits, Refused uint64
	// Behind is how far the clock was behind the ids at the latest call.
	Behind time.Duration
}

// Generator makes ids. It is safe for concurrent use.
type Generator struct {
	machine Machine
	now     func() time.Time

	mu       sync.Mutex
	millis   int64 // of the last id
	sequence int64
	spare    bool
	stats    Stats
}

// New returns a generator for the machine. now is the clock, usually [time.Now].
func New(machine Machine, now func() time.Time) (*Generator, error) {
	if n := machine.Number(); n < 0 || n >= Machines {
		return nil, fmt.Errorf("machine number must lie between 0 and %d, got %d", Machines-1, n)
	}
	g := &Generator{machine: machine, now: now}
	if floor := machine.Floor(); !floor.IsZero() {
		// The millisecond of the floor is used up, in both segments.
		g.millis, g.sequence, g.spare = max(0, floor.Sub(epoch).Milliseconds()), maxSequence, true
	}
	return g, nil
}

// Next returns the next id. It waits no longer than [MaxWait] and ctx allow. Errors are ctx's, [ErrClock], those of the
// machine, and, from 2093 on, that the milliseconds are spent.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	for waited := time.Duration(0); ; {
		id, wait, err := g.try(waited < MaxWait)
		if err != nil || wait == 0 {
			return id, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			waited += wait
		case <-ctx.Done():
			timer.Stop()
			g.refuse()
			return 0, fmt.Errorf("wait for the clock: %w", ctx.Err())
		}
	}
}

func (g *Generator) refuse() {
	g.mu.Lock()
	g.stats.Refused++
	g.mu.Unlock()
}

// try returns an id, or how long to wait for one, which is not asked of a caller who has no patience left.
func (g *Generator) try(patient bool) (id int64, wait time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() {
		if err != nil {
			g.stats.Refused++
		}
	}()

	now := g.now().Sub(epoch).Milliseconds()
	behind := time.Duration(g.millis-now) * time.Millisecond
	g.stats.Behind = max(0, behind)
	millis, sequence, spare := g.millis, g.sequence+1, g.spare
	switch {
	case behind < 0:
		millis, sequence, spare = now, 0, false
	case behind == 0 && sequence <= maxSequence:
		// the clock is where it was, and there are numbers left
	case behind > MaxBehind:
		return 0, 0, fmt.Errorf("%w: it is %v behind the last id", ErrClock, behind)
	case behind <= MaxWait && patient:
		g.stats.Waits++
		return 0, behind + time.Millisecond, nil
	case !spare:
		// The spare segment's ids are larger than all of this millisecond, and nobody has used them.
		sequence, spare = 0, true
	case sequence > maxSequence:
		millis, sequence = millis+1, 0 // of the future, which the other segment reaches only when the clock does
	}
	if millis < 0 || millis > maxMillis {
		return 0, 0, fmt.Errorf("%w: it is outside the years of ids, 2024 to 2093", ErrClock)
	}
	at := epoch.Add(time.Duration(millis) * time.Millisecond)
	if err := g.machine.Covers(at); err != nil {
		return 0, 0, err
	}
	if millis > g.millis {
		g.machine.Used(at)
	}
	g.millis, g.sequence, g.spare = millis, sequence, spare
	g.stats.Given++
	segment := int64(g.machine.Number())
	if spare {
		segment += Machines
		g.stats.Spare++
	}
	return millis<<(segmentBits+sequenceBits) | segment<<sequenceBits | sequence, 0, nil
}

// Stats tells how the generator has fared so far.
func (g *Generator) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stats
}
