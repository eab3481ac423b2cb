package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Cluster is the set of shards behind one routing table. It is safe for concurrent use, also of many clusters, in as many
// processes, over the same shards: one that does not know the newest table is refused by the shards and then reads it.
type Cluster struct {
	members []*member
	table   atomic.Pointer[RoutingTable]
}

// member is one shard with what was asked of it.
type member struct {
	name     string
	store    Store
	requests atomic.Uint64
	errors   atomic.Uint64
	busy     atomic.Int64 // nanoseconds
	keys     *keyWindows
}

// Stats tells what was asked of one shard and how it went. The counters cover look-ups and claims, nothing else.
type Stats struct {
	// Shard is the shard's name: shard0, shard1, …
	Shard string
	// Address is the store's address, empty where there is none.
	Address string
	// Requests counts the calls begun, Errors those that ended without an answer. A name that is taken is an answer.
	Requests, Errors uint64
	// Busy is the time inside calls that are over, waiting for a connection included.
	Busy time.Duration
	// Pool is the state of the store's connection pool.
	Pool PoolStats
	// Replica is where look-ups go in place of the shard itself; nil where they do not.
	Replica *ReplicaStats
	// TopKeys are the names most asked for of late.
	TopKeys TopKeys
}

// NewCluster joins the stores, the owners 0, 1, … of the routing table, into one. The cluster owns them from then on. It asks
// the stores nothing: see [OpenCluster] for shards that keep their routing table themselves.
func NewCluster(stores []Store, table RoutingTable) (*Cluster, error) {
	if len(stores) == 0 {
		return nil, errors.New("a cluster needs at least one shard")
	}
	if err := table.Validate(len(stores)); err != nil {
		return nil, err
	}
	c := new(Cluster)
	c.table.Store(&table)
	now := time.Now()
	for i, s := range stores {
		c.members = append(c.members, &member{name: "shard" + strconv.Itoa(i), store: s, keys: newKeyWindows(now)})
	}
	return c, nil
}

// Len is the number of shards.
func (c *Cluster) Len() int { return len(c.members) }

// Store is shard i itself, for work that is not traffic: what is asked of it directly appears in no counter.
func (c *Cluster) Store(i int) Store { return c.members[i].store }

// Owner is the index of the shard that owns the name.
func (c *Cluster) Owner(name string) int { return c.table.Load().Owner(name) }

// Home is the name of the shard where the name is looked up and registered, and where its row is; empty while it is on its way
// from one shard to another.
func (c *Cluster) Home(name string) string {
	t := c.table.Load()
	if t.Change != nil {
		if _, _, moves := t.Change.moves(name); moves {
			return ""
		}
	}
	return c.members[t.Owner(name)].name
}

// Table is the routing table as this cluster knows it. The caller must not change it.
func (c *Cluster) Table() RoutingTable { return *c.table.Load() }

// Lookup finds the row of a name; see [Store]. Errors name the shard.
func (c *Cluster) Lookup(ctx context.Context, name string) (row Row, found bool, err error) {
	err = c.route(ctx, name, func(m *member) error {
		start := m.begin(name)
		row, found, err = m.store.Lookup(ctx, name)
		return m.end(start, err)
	})
	return row, found, err
}

// Claim gives a name to a user; see [Store]. Errors name the shard. That a mobile number is taken is an answer, no error of
// the shard's.
func (c *Cluster) Claim(ctx context.Context, claim Claim) (won bool, err error) {
	err = c.route(ctx, claim.Name, func(m *member) error {
		start := m.begin(claim.Name)
		won, err = m.store.Claim(ctx, claim)
		if errors.Is(err, ErrMobileTaken) {
			_ = m.end(start, nil)
			return err
		}
		return m.end(start, err)
	})
	return won, err
}

// Move takes a name from one state to another; see [Store]. Errors name the shard. It is not counted among the traffic.
func (c *Cluster) Move(ctx context.Context, m Move) (moved bool, err error) {
	err = c.route(ctx, m.Name, func(at *member) error {
		if moved, err = at.store.Move(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", at.name, err)
		}
		return nil
	})
	return moved, err
}

// begin counts a call when it starts, not when it ends, so that what hangs is seen while it hangs.
func (m *member) begin(name string) time.Time {
	now := time.Now()
	m.requests.Add(1)
	m.keys.observe(name, now)
	return now
}

func (m *member) end(start time.Time, err error) error {
	m.busy.Add(int64(time.Since(start)))
	switch {
	case errors.Is(err, ErrMoved): // it will be asked elsewhere
		return err
	case err != nil:
		m.errors.Add(1)
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// Stats tells the state of every shard, in order, from memory: it answers at once, whatever the databases do.
func (c *Cluster) Stats() []Stats {
	all := make([]Stats, len(c.members))
	for i, m := range c.members {
		all[i] = Stats{
			Shard:    m.name,
			Address:  m.store.Address(),
			Requests: m.requests.Load(),
			Errors:   m.errors.Load(),
			Busy:     time.Duration(m.busy.Load()),
			Pool:     m.store.Pool(),
			TopKeys:  m.keys.top(maxTopKeys, time.Now()),
		}
		if r, ok := m.store.(interface{ Replica() (ReplicaStats, bool) }); ok {
			if stats, has := r.Replica(); has {
				all[i].Replica = &stats
			}
		}
	}
	return all
}

// seedBatch is the number of rows that Seed gives to a shard at once: large enough that the cost of a transaction is
// spread thin, small enough that a few batches per shard in memory do not matter.
const seedBatch = 4096

// Seed loads rows in bulk, each into its shard, all shards at the same time, and answers how many it added. Names that
// are taken are passed over, so that a seed that failed half-way can be repeated. It is not traffic: no counter moves.
func (c *Cluster) Seed(ctx context.Context, rows iter.Seq[Row]) (int64, error) {
	var added atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	feeds := make([]chan []Row, len(c.members))
	for i, m := range c.members {
		feeds[i] = make(chan []Row, 1)
		group.Go(func() error {
			for batch := range feeds[i] {
				n, err := m.store.Load(ctx, batch)
				if err != nil {
					return fmt.Errorf("%s: %w", m.name, err)
				}
				added.Add(n)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer func() {
			for _, f := range feeds {
				close(f)
			}
		}()
		return c.deal(ctx, rows, feeds)
	})
	err := group.Wait()
	return added.Load(), err
}

// deal sorts the rows into batches by shard and hands them to the feeds.
func (c *Cluster) deal(ctx context.Context, rows iter.Seq[Row], feeds []chan []Row) error {
	batches := make([][]Row, len(feeds))
	send := func(i int) error {
		select {
		case feeds[i] <- batches[i]:
			batches[i] = nil
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for row := range rows {
		i := c.Owner(row.Name)
		batches[i] = append(batches[i], row)
		if len(batches[i]) == seedBatch {
			if err := send(i); err != nil {
				return err
			}
		}
	}
	for i := range batches {
		if len(batches[i]) > 0 {
			if err := send(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes every store.
func (c *Cluster) Close() error {
	var errs []error
	for _, m := range c.members {
		if err := m.store.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}
