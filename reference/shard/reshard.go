package shard

import (
	"context"
	"fmt"
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
