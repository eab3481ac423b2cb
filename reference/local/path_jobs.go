package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/id"
	"github.com/regpath/diagnose/reference/shard"
)

// saveEvery is the pause between two snapshots of the filter; the last one is made at the end.
const saveEvery = 5 * time.Minute

// clock is the time of the machine, give or take what somebody has set it wrong by.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// openIDs makes the generator of user ids, and tells its machine number.
func (p *Path) openIDs(ctx context.Context, o Options, way cache.RedisOptions, patient *fault.Patient, failed func(reference.Failure)) (*id.Generator, int, error) {
	wall := new(clock)
	patient.SetClock = func(d time.Duration) { wall.offset.Store(int64(d)) }
	machine := id.Machine(id.Fixed(o.Machine))
	if o.LeaseMachine {
		client := newClient(way, 1)
		p.onClose(client.Close)
		lease, err := id.Acquire(ctx, client, id.LeaseOptions{Now: wall.now, Failed: func(err error) {
			failed(reference.Failure{Layer: reference.API, Target: "ids", Err: err})
		}})
		if err != nil {
			return nil, 0, err
		}
		p.onClose(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return lease.Close(ctx)
		})
		machine = lease
	}
	shared := &sharedNumber{Machine: machine}
	patient.Twin = func(ctx context.Context) (func(), error) { return p.startTwin(ctx, shared, failed) }
	ids, err := id.New(shared, wall.now)
	return ids, machine.Number(), err
}

// fillFilter fills the filter: from the snapshot and what came since, or else from all shards. With a snapshot it goes on to
// save it from time to time, and at the end.
func (p *Path) fillFilter(ctx context.Context, o Options) error {
	if o.Snapshot == "" {
		return p.buildFilter(ctx, o)
	}
	err := p.Service.RestoreFilter(ctx, o.Snapshot, o.Filter)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, bloom.ErrSnapshotCorrupt), errors.Is(err, bloom.ErrSnapshotForeign):
		o.Logger.Info("filter is built from the shards", "reason", err)
		if err := p.buildFilter(ctx, o); err != nil {
			return err
		}
	default:
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(saveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := p.Service.Filter.Save(ctx, o.Snapshot); err != nil && ctx.Err() == nil {
					o.Logger.Warn("filter is not saved", "reason", err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	p.onClose(func() error {
		cancel()
		running.Wait()
		return p.Service.Filter.Save(context.WithoutCancel(ctx), o.Snapshot)
	})
	return nil
}

func (p *Path) buildFilter(ctx context.Context, o Options) error {
	if err := p.Service.RebuildFilter(ctx, o.Filter); err != nil {
		return fmt.Errorf("build filter: %w", err)
	}
	return nil
}

// expire lets every entry of the cache in Redis expire.
func expire(ctx context.Context, client *redis.Client) error {
	const batch = 1000
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, "name:*", batch).Result()
		if err == nil && len(keys) > 0 {
			err = client.Unlink(ctx, keys...).Err()
		}
		if err != nil {
			return fmt.Errorf("expire entries: %w", err)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// startReclaim makes names available whose cool-down is over.
func (p *Path) startReclaim(ctx context.Context, o Options, failed func(reference.Failure)) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	job := shard.Reclaimer{
		Cluster: p.Service.Shards, Every: o.ReclaimEvery, Freed: p.Service.Freed,
		Failed: func(err error) {
			failed(reference.Failure{Layer: reference.Shard, Target: "reclaim", Err: err})
		},
	}
	running.Go(func() { job.Run(ctx) })
	p.onClose(func() error {
		cancel()
		running.Wait()
		return nil
	})
}
