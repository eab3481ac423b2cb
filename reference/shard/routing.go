package shard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// firstWait and longestWait bound the pauses between two attempts of a call whose name is between two shards, which
	// takes as long as a few transactions.
	firstWait   = time.Millisecond
	longestWait = 50 * time.Millisecond
	// settleTries bounds how often a cluster that opens reads the tables again because another was changing them.
	settleTries = 10
	// driftSample is the number of names per shard that are held against the routing table at the start. A wrong table is
	// wrong for a large part of them.
	driftSample = 256
)

// OpenCluster joins the stores into a cluster whose routing table the shards keep themselves, and checks that they fit: that
// all have the same version, or one that an interrupted change has left one step behind, which is then brought up; that
// every database stands at its place in the order; and that samples of names lie where the table says ([DriftError]).
// Shards without a table are given the first one, and a shard that is added later the present one. The cluster owns the
// stores only if there is no error.
func OpenCluster(ctx context.Context, stores []Store, first RoutingTable) (*Cluster, error) {
	c, err := NewCluster(stores, first)
	if err != nil {
		return nil, err
	}
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	if err := c.checkDrift(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// settle brings all shards to the newest routing table, and the cluster too.
func (c *Cluster) settle(ctx context.Context) error {
	var err error
	for range settleTries {
		if err = c.settleOnce(ctx); !errors.Is(err, ErrStaleTable) {
			return err
		}
	}
	return err
}

func (c *Cluster) settleOnce(ctx context.Context) error {
	all, err := c.stored(ctx)
	if err != nil {
		return err
	}
	newest := c.Table()
	begun := false // whether any shard has a table
	for _, p := range all {
		if p.table.Version > 0 && (!begun || p.table.Version > newest.Version) {
			newest, begun = p.table, true
		}
	}
	if err := newest.Validate(len(c.members)); err != nil {
		return err
	}
	for i, p := range all {
		if err := c.mayBecome(ctx, i, p, newest); err != nil {
			return fmt.Errorf("%s: %w", c.members[i].name, err)
		}
	}
	for i, p := range all {
		if p.table.Version < newest.Version {
			if err := c.members[i].store.Placement().place(ctx, i, p.table.Version, newest); err != nil {
				return fmt.Errorf("%s: %w", c.members[i].name, err)
			}
		}
	}
	c.adopt(newest)
	return nil
}

// mayBecome returns nil if shard i, which has p, may have the newest table.
func (c *Cluster) mayBecome(ctx context.Context, i int, p placed, newest RoutingTable) error {
	switch {
	case p.table.Version == 0 && newest.Version == 1:
		return nil
	case p.table.Version == 0:
		for bucket := range Buckets {
			if h := newest.holding(i, bucket); h.reads != 0 {
				return fmt.Errorf("it has no routing table, but owns buckets in version %d: is this the right database?", newest.Version)
			}
		}
		if some, err := c.members[i].store.Sample(ctx, 1, time.Now()); err != nil || len(some) > 0 {
			return errors.Join(err, fmt.Errorf("it has names but no routing table, the others have version %d", newest.Version))
		}
		return nil
	case p.shard != i:
		return fmt.Errorf("this database is shard%d of its cluster: the order of the databases has changed", p.shard)
	case p.table.Version == newest.Version:
		if !reflect.DeepEqual(p.table, newest) {
			return fmt.Errorf("it has another routing table of version %d than another shard", newest.Version)
		}
		return nil
	}
	return newest.Follows(p.table)
}

// stored reads the routing tables of all shards.
func (c *Cluster) stored(ctx context.Context) ([]placed, error) {
	all := make([]placed, len(c.members))
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range c.members {
		group.Go(func() (err error) {
			if all[i], err = m.store.Placement().stored(ctx); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			return nil
		})
	}
	return all, group.Wait()
}

// adopt makes the table the cluster's, unless it has a newer one.
func (c *Cluster) adopt(t RoutingTable) {
	for {
		old := c.table.Load()
		if old.Version > t.Version || c.table.CompareAndSwap(old, &t) {
			return
		}
	}
}

// DriftError says that a shard holds names that the routing table gives to another. Names in the wrong place are seen by
// nobody, and may be registered a second time in the right one.
type DriftError struct {
	Shard   string
	Version int // of the table
	// Bucket is an example, and Owner the shard that the table gives its names to.
	Bucket int
	Owner  string
	// Wrong counts the names in the wrong place among the Sampled.
	Wrong, Sampled int
}

// Error implements error.
func (e *DriftError) Error() string {
	return fmt.Sprintf("routing drift: %d of %d names sampled on %s belong to other shards by routing table version %d, those of bucket %d to %s",
		e.Wrong, e.Sampled, e.Shard, e.Version, e.Bucket, e.Owner)
}

// checkDrift samples the names of every shard.
func (c *Cluster) checkDrift(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range c.members {
		group.Go(func() error {
			rows, err := m.store.Sample(ctx, driftSample, time.Now())
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			return c.drift(i, rows)
		})
	}
	return group.Wait()
}

// drift says what is wrong with rows found on shard i. Names that move are right at both ends.
func (c *Cluster) drift(i int, rows []Row) error {
	t := c.table.Load()
	found := DriftError{Shard: c.members[i].name, Version: t.Version, Sampled: len(rows)}
	for _, r := range rows {
		owner := t.Owner(r.Name)
		if owner == i {
			continue
		}
		if t.Change != nil {
			if from, to, moves := t.Change.moves(r.Name); moves && (from == i || to == i) {
				continue
			}
		}
		found.Wrong++
		found.Bucket, found.Owner = Bucket(r.Name), c.members[owner].name
	}
	if found.Wrong > 0 {
		return &found
	}
	return nil
}

// route makes a call at the shard where the name has its home. While the shard says that it has moved, the cluster reads the
// newer table there and calls again, as long as ctx lasts.
func (c *Cluster) route(ctx context.Context, name string, call func(*member) error) error {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		t := c.table.Load()
		m := c.members[t.Owner(name)]
		err := call(m)
		if !errors.Is(err, ErrMoved) {
			return err
		}
		if newer, reloadErr := c.reload(ctx, m, t.Version); reloadErr != nil {
			return fmt.Errorf("%s: %w: %w", m.name, err, reloadErr)
		} else if newer {
			continue
		}
		// The shard is as new as the table: the bucket is between two shards.
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w: %w", m.name, err, ctx.Err())
		}
	}
}

// reload reads the routing table of the shard that refused a call: it knows at least the version that made it refuse.
func (c *Cluster) reload(ctx context.Context, m *member, version int) (newer bool, err error) {
	if c.table.Load().Version > version { // another call has reloaded it
		return true, nil
	}
	p, err := m.store.Placement().stored(ctx)
	if err != nil || p.table.Version <= version {
		return false, err
	}
	if err := p.table.Validate(len(c.members)); err != nil {
		return false, err
	}
	c.adopt(p.table)
	return true, nil
}

// publish makes next the routing table of all shards, in their order: who brings it to the first has won against everybody
// else who wanted to change the same version. If it fails on the way, the next cluster that opens, resumes or aborts brings
// it to the rest.
func (c *Cluster) publish(ctx context.Context, next RoutingTable) error {
	for i, m := range c.members {
		if err := m.store.Placement().place(ctx, i, next.Version-1, next); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	c.adopt(next)
	return nil
}
