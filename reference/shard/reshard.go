package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Reshard gives a bucket to other owners: to one, to move it, or to 2, 4, 8 or 16, to split it among them. Look-ups and
// registrations go on meanwhile, through this and every other cluster over the same shards; those of the bucket wait, for a
// few transactions, while it passes from the old shard to the new.
//
//  1. copy: the old shard serves, and notes in the transaction of every write what has to be written at the new one too, so
//     that no crash can come between the two. Rows are copied in batches, then what was noted, then both sides are compared.
//  2. freeze: no writes. The last notes are carried over and compared.
//  3. switch, 4. clean: the new shard serves, the rows at the old one are deleted.
//
// An error or a crash leaves the change where it is, and everything working but, in steps 2 and 3, registrations in that
// bucket: call [Cluster.Resume] or [Cluster.Abort]. There is one change at a time, [ErrChange] otherwise. It reads the
// tables of the old shard four times from end to end.
func (c *Cluster) Reshard(ctx context.Context, bucket int, owners ...int) (Resharded, error) {
	if err := validOwners(bucket, owners, len(c.members)); err != nil {
		return Resharded{}, err
	}
	return c.change(ctx, func(t RoutingTable) (RoutingTable, error) { return t.begin(bucket, owners) })
}

// Resume takes up the change that is under way, where it was left, and locks out whoever may still be working at it.
func (c *Cluster) Resume(ctx context.Context) (Resharded, error) {
	return c.change(ctx, RoutingTable.takeUp)
}

// Abort turns the change back and deletes what was copied. From step 3 on it fails with [ErrChange]: resume it, and reshard
// back.
func (c *Cluster) Abort(ctx context.Context) error {
	_, err := c.change(ctx, RoutingTable.turnBack)
	return err
}

// Resharded tells what a change has done. Of one that was resumed it tells what was done since.
type Resharded struct {
	// Names is how many names have been compared at both sides, and Checksum is that of their rows, at both sides.
	Names    int
	Checksum uint64
	// Carried counts the names that were written, or found to differ, while they were copied, and were carried over since.
	Carried int
	// Deleted counts the rows that were deleted at the shard that does not own them any more.
	Deleted int
}

// change makes the next routing table of the present one, publishes it, and then does what each step demands until there is
// no change any more.
func (c *Cluster) change(ctx context.Context, start func(RoutingTable) (RoutingTable, error)) (done Resharded, err error) {
	if err := c.settle(ctx); err != nil {
		return done, fmt.Errorf("change the routing: %w", err)
	}
	next, err := start(c.Table())
	if err != nil {
		return done, err
	}
	m := mover{cluster: c, dirty: map[string]bool{}}
	for {
		if err := c.publish(ctx, next); err != nil {
			return m.done, fmt.Errorf("change the routing: %w", err)
		}
		if next.Change == nil {
			return m.done, nil
		}
		m.change, m.pass = *next.Change, pass{bucket: next.Change.Bucket, version: next.Version}
		if err := m.step(ctx); err != nil {
			return m.done, fmt.Errorf("change of bucket %d, step %s: %w", m.change.Bucket, m.change.Step, err)
		}
		if next, err = next.advance(); err != nil {
			return m.done, err
		}
	}
}

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
			var names []string
			for _, n := range notes {
				if from, _, moves := m.change.moves(n.name); moves && from == shard && !slices.Contains(names, n.name) {
					names = append(names, n.name)
				}
			}
			if err := m.carry(ctx, names); err != nil {
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
	return m.forgetAll(ctx)
}

// forgetAll deletes the notes that a change leaves behind when it is turned back.
func (m *mover) forgetAll(ctx context.Context) error {
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
			if err := m.at(shard).forget(ctx, m.pass, notes); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair is a name as two shards have it; the side that has it not is zero.
type pair struct {
	left, right       record
	hasLeft, hasRight bool
}

func (p pair) name() string {
	if p.hasLeft {
		return p.left.name
	}
	return p.right.name
}

// zip joins two ascending sequences by name.
func zip(left, right iter.Seq2[record, error]) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		nextLeft, stopLeft := iter.Pull2(left)
		defer stopLeft()
		nextRight, stopRight := iter.Pull2(right)
		defer stopRight()
		l, errL, moreL := nextLeft()
		r, errR, moreR := nextRight()
		for moreL || moreR {
			if err := errors.Join(errL, errR); err != nil {
				yield(pair{}, err)
				return
			}
			p := pair{hasLeft: moreL && (!moreR || l.name <= r.name), hasRight: moreR && (!moreL || r.name <= l.name)}
			if p.hasLeft {
				p.left = l
				l, errL, moreL = nextLeft()
			}
			if p.hasRight {
				p.right = r
				r, errR, moreR = nextRight()
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}
