package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/regpath/diagnose/reference/name"
)

// Reclaimer makes released names available when their cool-down is over. Any number of instances may run one: each name is
// moved by compare-and-set, so that exactly one of them moves it and one event tells so. A name that is claimed before the
// job comes by needs no job; see [Store].
type Reclaimer struct {
	// Cluster holds the names.
	Cluster *Cluster
	// Every is the pause between two rounds, give or take a tenth, lest all instances come at once; 0 means a minute.
	Every time.Duration
	// Batch is the most names of one shard in one round; 0 means 500.
	Batch int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Freed is told of every name that this instance moved, so that the caches can forget that it is taken. It may be nil.
	Freed func(ctx context.Context, name string)
	// Failed is told why a round was not complete. It may be nil.
	Failed func(error)
}

// Run makes rounds until ctx ends: one after the other while there is a backlog, else with a pause between them.
func (r Reclaimer) Run(ctx context.Context) {
	every := r.Every
	if every <= 0 {
		every = time.Minute
	}
	for ctx.Err() == nil {
		moved, err := r.Round(ctx)
		if err != nil && ctx.Err() == nil && r.Failed != nil {
			r.Failed(err)
		}
		if err == nil && moved >= r.batch() {
			continue
		}
		timer := time.NewTimer(every - every/10 + rand.N(every/5+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (r Reclaimer) batch() int {
	if r.Batch <= 0 {
		return 500
	}
	return r.Batch
}

// Round moves at most one batch of every shard and answers how many names it moved. A shard that fails does not keep the
// others from their turn; the errors of all are joined.
func (r Reclaimer) Round(ctx context.Context) (moved int, err error) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	at := now()
	var failed []error
	for i := range r.Cluster.Len() {
		names, err := r.Cluster.Store(i).Recyclable(ctx, at, r.batch())
		if err != nil {
			failed = append(failed, fmt.Errorf("shard%d: %w", i, err))
			continue
		}
		for _, n := range names {
			if r.Cluster.Owner(n) != i {
				continue // a copy, on its way to this shard or left behind
			}
			// The cluster's Move, not the store's: the bucket may have gone elsewhere meanwhile.
			freed, err := r.Cluster.Move(ctx, Move{Name: n, From: name.Released, To: name.Available, At: at})
			if err != nil {
				failed = append(failed, err)
				break
			}
			if freed {
				moved++
				if r.Freed != nil {
					r.Freed(ctx, n)
				}
			}
		}
	}
	return moved, errors.Join(failed...)
}
