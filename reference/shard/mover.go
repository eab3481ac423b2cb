package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// mover works at a change.
type mover struct {
	cluster *Cluster
	change  Change
	pass    pass
	dirty   map[string]bool // names that differed when they were compared
	done    Resharded
}

func (m *mover) step(ctx context.Context) error {
	switch m.change.Step {
	case StepCopy:
		if err := m.copy(ctx); err != nil {
			return err
		}
		if err := m.carryNotes(ctx, false); err != nil {
			return err
		}
		if err := m.compare(ctx); err != nil {
			return err
		}
		return m.carryNotes(ctx, false) // what remains for the freeze is little
	case StepFreeze:
		if err := m.carryNotes(ctx, true); err != nil {
			return err
		}
		return m.carry(ctx, slices.Collect(maps.Keys(m.dirty)))
	case StepSwitch: // nothing but that everybody knows
	case StepClean, StepAbort:
		return m.clean(ctx)
	}
	return nil
}

// way is one pair of shards between which names move.
type way struct{ from, to int }

// ways lists them.
func (m *mover) ways() []way {
	seen := map[way]bool{}
	for part := range Parts {
		from, to := m.change.home(part)
		if from != to {
			seen[way{from, to}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b way) int { return (a.from-b.from)*Buckets + a.to - b.to })
}

// wanted says which names move on that way.
func (m *mover) wanted(w way) func(string) bool {
	return func(name string) bool {
		from, to, moves := m.change.moves(name)
		return moves && w == way{from, to}
	}
}

func (m *mover) at(shard int) Placement { return m.cluster.members[shard].store.Placement() }

// copy copies all rows.
func (m *mover) copy(ctx context.Context) error {
	for _, w := range m.ways() {
		for table := range SubTables {
			batch := make([]record, 0, carryBatch)
			put := func() error {
				if len(batch) == 0 {
					return nil
				}
				names := make([]string, len(batch))
				for i, r := range batch {
					names[i] = r.name
				}
				err := m.at(w.to).put(ctx, m.pass, names, batch)
				batch = batch[:0]
				return err
			}
			for r, err := range m.at(w.from).walk(ctx, table, m.wanted(w)) {
				if err != nil {
					return err
				}
				if batch = append(batch, r); len(batch) == carryBatch {
					if err := put(); err != nil {
						return err
					}
				}
			}
			if err := put(); err != nil {
				return err
			}
		}
	}
	return nil
}

// carryNotes carries over what was noted, until there is nothing, or, as long as there are writes, until there is little.
func (m *mover) carryNotes(ctx context.Context, all bool) error {
	return m.useUpNotes(ctx, all, func(shard int, notes []note) error {
		var names []string
		for _, n := range notes {
			if from, _, moves := m.change.moves(n.name); moves && from == shard && !slices.Contains(names, n.name) {
				names = append(names, n.name)
			}
		}
		return m.carry(ctx, names)
	})
}

// useUpNotes gives the notes of every shard that is left, batch by batch, to use, and forgets them then: until there are none or,
// unless all is set, until there are few.
func (m *mover) useUpNotes(ctx context.Context, all bool, use func(shard int, notes []note) error) error {
	for shard := range m.cluster.members {
		if !slices.Contains(m.change.From, shard) {
			continue
		}
		for {
			notes, err := m.at(shard).notes(ctx)
			if err != nil {
				return err
			}
			if len(notes) == 0 {
				break
			}
			if err := use(shard, notes); err != nil {
				return err
			}
			if err := m.at(shard).forget(ctx, m.pass, notes); err != nil {
				return err
			}
			if !all && len(notes) < carryBatch {
				break
			}
		}
	}
	return nil
}

// carry makes names at their new shard what they are at the old one now, and in the freeze makes sure of it.
func (m *mover) carry(ctx context.Context, names []string) error {
	byWay := map[way][]string{}
	for _, name := range names {
		from, to, _ := m.change.moves(name)
		byWay[way{from, to}] = append(byWay[way{from, to}], name)
	}
	for w, names := range byWay {
		for batch := range slices.Chunk(names, carryBatch) {
			present, err := m.at(w.from).find(ctx, batch)
			if err != nil {
				return err
			}
			if err := m.at(w.to).put(ctx, m.pass, batch, present); err != nil {
				return err
			}
			m.done.Carried += len(batch)
			if m.change.Step != StepFreeze {
				continue
			}
			copied, err := m.at(w.to).find(ctx, batch)
			if err != nil {
				return err
			}
			if len(copied) != len(present) || checksum(copied) != checksum(present) {
				return fmt.Errorf("%w: %d names at shard%d, %d at shard%d", errDiffer, len(present), w.from, len(copied), w.to)
			}
		}
	}
	return nil
}

var errDiffer = errors.New("the copy differs")

func checksum(records []record) (sum uint64) {
	for _, r := range records {
		sum += r.sum()
	}
	return sum
}

// compare reads all rows at both sides and takes down the names that differ: what was written since its row was copied, and
// is noted, and whatever else. They are carried over in the freeze. All others are equal, in number and checksum.
func (m *mover) compare(ctx context.Context) error {
	m.done.Names, m.done.Checksum = 0, 0
	clear(m.dirty)
	for _, w := range m.ways() {
		for table := range SubTables {
			old := m.at(w.from).walk(ctx, table, m.wanted(w))
			copied := m.at(w.to).walk(ctx, table, m.wanted(w))
			for pair, err := range zip(old, copied) {
				if err != nil {
					return err
				}
				if pair.left != pair.right {
					m.dirty[pair.name()] = true
					continue
				}
				m.done.Names++
				m.done.Checksum += pair.left.sum()
			}
		}
	}
	return nil
}

// clean deletes the rows at the shards that do not own them, and the notes.
func (m *mover) clean(ctx context.Context) error {
	for _, w := range m.ways() {
		loser := w.from
		if m.change.Step == StepAbort {
			loser = w.to
		}
		for table := range SubTables {
			var names []string
			for r, err := range m.at(loser).walk(ctx, table, m.wanted(w)) {
				if err != nil {
					return err
				}
				names = append(names, r.name)
			}
			for batch := range slices.Chunk(names, carryBatch) {
				if err := m.at(loser).drop(ctx, m.pass, batch); err != nil {
					return err
				}
				m.done.Deleted += len(batch)
			}
		}
	}
	// A change that is turned back leaves notes behind.
	return m.useUpNotes(ctx, true, func(int, []note) error { return nil })
}
