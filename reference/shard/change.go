package shard

import (
	"errors"
	"fmt"
	"slices"
)

// Step is how far a [Change] has come.
type Step string

// The steps of a change. In each of them at most one shard accepts a registration of any name, and between two
// consecutive ones only one shard changes what it accepts: the order in which the shards learn of a step is therefore free.
const (
	// StepCopy copies the rows. The old shard serves, and notes every write in the same transaction for the new one.
	StepCopy Step = "copy"
	// StepFreeze carries the last notes over. The old shard answers look-ups and refuses writes.
	StepFreeze Step = "freeze"
	// StepSwitch turns all requests to the new shard, which does not serve yet. The old one refuses everything.
	StepSwitch Step = "switch"
	// StepClean deletes the rows at the old shard. The new one serves.
	StepClean Step = "clean"
	// StepAbort deletes the copies. The old shard serves as if nothing had been.
	StepAbort Step = "abort"
)

// ErrChange is in the chain of the error when a table's change does not allow what is asked: one is under way already,
// none is, or it has gone too far to be turned back.
var ErrChange = errors.New("routing change")

// Change is a bucket on its way from its old owners to its new ones: a move, a split, or a split undone.
type Change struct {
	Bucket int   `json:"bucket"`
	From   []int `json:"from"`
	To     []int `json:"to"`
	Step   Step  `json:"step"`
}

func (c Change) validate(shards int) error {
	switch c.Step {
	case StepCopy, StepFreeze, StepSwitch, StepClean, StepAbort:
	default:
		return fmt.Errorf("the change of bucket %d is at no known step: %q", c.Bucket, c.Step)
	}
	return errors.Join(validOwners(c.Bucket, c.From, shards), validOwners(c.Bucket, c.To, shards))
}

// serving lists the owners that requests go to.
func (c Change) serving() []int {
	if c.Step == StepSwitch || c.Step == StepClean {
		return c.To
	}
	return c.From
}

// home tells where a part was and where it will be.
func (c Change) home(part int) (from, to int) { return ownerOf(c.From, part), ownerOf(c.To, part) }

// moves says whether the name changes its shard, and from where to where.
func (c Change) moves(name string) (from, to int, moves bool) {
	if Bucket(name) != c.Bucket {
		return 0, 0, false
	}
	from, to = c.home(Part(name))
	return from, to, from != to
}

// begin answers the table in which the bucket starts on its way to other owners.
func (t RoutingTable) begin(bucket int, to []int) (RoutingTable, error) {
	if t.Change != nil {
		return t, fmt.Errorf("%w: bucket %d is under way, one at a time", ErrChange, t.Change.Bucket)
	}
	if bucket < 0 || bucket >= Buckets {
		return t, fmt.Errorf("there is no bucket %d, there are %d", bucket, Buckets)
	}
	from := slices.Clone(t.owners(bucket))
	if slices.Equal(from, to) {
		return t, fmt.Errorf("%w: bucket %d is with %v already", ErrChange, bucket, to)
	}
	t.Version++
	t.Change = &Change{Bucket: bucket, From: from, To: slices.Clone(to), Step: StepCopy}
	return t, nil
}

// at answers the table of the next version with its change at another step.
func (t RoutingTable) at(step Step) RoutingTable {
	c := *t.Change
	c.Step = step
	t = t.withOwners(c.Bucket, c.serving())
	t.Change = &c
	return t
}

// takeUp answers the same table with the next version: whoever worked at the change before is locked out by it. From the
// freeze it goes back to the copy, for what was found out there about the copies is lost.
func (t RoutingTable) takeUp() (RoutingTable, error) {
	switch {
	case t.Change == nil:
		return t, fmt.Errorf("%w: none is under way", ErrChange)
	case t.Change.Step == StepFreeze:
		return t.at(StepCopy), nil
	}
	return t.at(t.Change.Step), nil
}

// advance answers the table one step further; after the last step, without a change.
func (t RoutingTable) advance() (RoutingTable, error) {
	if t.Change == nil {
		return t, fmt.Errorf("%w: none is under way", ErrChange)
	}
	switch t.Change.Step {
	case StepCopy:
		return t.at(StepFreeze), nil
	case StepFreeze:
		return t.at(StepSwitch), nil
	case StepSwitch:
		return t.at(StepClean), nil
	case StepClean, StepAbort:
		t = t.at(t.Change.Step)
		t.Change = nil
		return t, nil
	}
	return t, fmt.Errorf("%w: at no known step: %q", ErrChange, t.Change.Step)
}

// turnBack answers the table in which the change is undone. From the switch on it is too late for that: the way back is a
// change in the other direction.
func (t RoutingTable) turnBack() (RoutingTable, error) {
	switch {
	case t.Change == nil:
		return t, fmt.Errorf("%w: none is under way", ErrChange)
	case t.Change.Step != StepCopy && t.Change.Step != StepFreeze:
		return t, fmt.Errorf("%w: bucket %d is at step %s and cannot be turned back", ErrChange, t.Change.Bucket, t.Change.Step)
	}
	return t.at(StepAbort), nil
}

// parts is a set of parts of a bucket, one bit each.
type parts uint16

const allParts parts = 1<<Parts - 1

func (p parts) has(part int) bool { return p>>part&1 == 1 }

// holding is what one shard has to do with one bucket. The shard keeps it beside its rows and looks at it in the
// transaction of every look-up and every write, so that an instance with an old routing table can do no harm: no part is
// ever writable at two shards.
type holding struct {
	bucket, version int   // version is that of the table which said so
	reads, writes   parts // what the shard answers for, what it accepts registrations for
	noted           parts // writes to these are noted, to be carried over
	arriving        parts // these may be copied in
}

// holding derives from the table what the shard has to do with the bucket.
func (t RoutingTable) holding(shard, bucket int) holding {
	h := holding{bucket: bucket, version: t.Version}
	owners := t.owners(bucket)
	for part := range Parts {
		bit := parts(1) << part
		if ownerOf(owners, part) == shard {
			h.reads |= bit
			h.writes |= bit
		}
		if t.Change == nil || t.Change.Bucket != bucket {
			continue
		}
		from, to := t.Change.home(part)
		if from == to {
			continue
		}
		switch t.Change.Step {
		case StepCopy:
			if from == shard {
				h.noted |= bit
			}
			if to == shard {
				h.arriving |= bit
			}
		case StepFreeze:
			h.writes &^= bit
			if to == shard {
				h.arriving |= bit
			}
		case StepSwitch:
			h.reads &^= bit
			h.writes &^= bit
			if to == shard {
				h.arriving |= bit
			}
		case StepClean, StepAbort:
		}
	}
	return h
}
