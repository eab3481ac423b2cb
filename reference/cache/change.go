package cache

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeleteAgainAfter is how long after a release the marker is deleted again:
// longer than a command on its way takes.
const DeleteAgainAfter = 500 * time.Millisecond

// Claimed sets the exact marker of name after its registration and tells every
// instance, in one step.
func (r *Redis) Claimed(ctx context.Context, name string) error {
	err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error {
		return r.scripts.claim.Run(ctx, c, []string{keyPrefix + name, newsKey},
			name, valueTaken, takenTTL().Milliseconds(), newsLength).Err()
	})
	if err != nil {
		return fmt.Errorf("set taken marker: %w", err)
	}
	return nil
}

// Released deletes the entry of name after its release at the given time, tells
// every instance, and notes in Redis that it is to be deleted again, in one
// step. The second delete is as durable as the entry: any instance's Sweep does
// it, also when this process has ended. After an error the release is owed, and
// the next Sweep of this Redis tries again.
func (r *Redis) Released(ctx context.Context, name string, at time.Time) error {
	err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error {
		return r.release(ctx, c, name, at)
	})
	if err != nil {
		r.owed.add(name, at)
		return fmt.Errorf("delete marker: %w", err)
	}
	return nil
}

func (r *Redis) release(ctx context.Context, c *redis.Client, name string, at time.Time) error {
	return r.scripts.release.Run(ctx, c, []string{keyPrefix + name, newsKey, againKey, hotKey},
		name, at.Add(DeleteAgainAfter).UnixMilli(), newsLength).Err()
}

// sweepSize is how many second deletes one script does: Redis does nothing else
// meanwhile.
const sweepSize = 200

// Sweep makes good the releases that are owed and does the second deletes that
// are due at now, of whatever instance. It is for the upkeep and not traffic.
func (r *Redis) Sweep(ctx context.Context, now time.Time) error {
	return r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error { return r.sweep(ctx, c, now) })
}

func (r *Redis) sweep(ctx context.Context, c *redis.Client, now time.Time) error {
	for name, at := range r.owed.take() {
		if err := r.release(ctx, c, name, at); err != nil {
			r.owed.add(name, at)
			return fmt.Errorf("make good a release: %w", err)
		}
	}
	for {
		done, err := r.scripts.sweep.Run(ctx, c, []string{againKey, newsKey}, now.UnixMilli(), keyPrefix, sweepSize, newsLength).Int()
		if err != nil {
			return fmt.Errorf("delete markers again: %w", err)
		}
		if done < sweepSize {
			return nil
		}
	}
}

// maxOwed bounds the releases that wait for Redis. What is beyond it is made
// good by the outbox, or ends with the TTL of the marker.
const maxOwed = 10_000

// owed are releases that did not reach Redis.
type owed struct {
	mu    sync.Mutex
	names map[string]time.Time
}

func (o *owed) add(name string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names == nil {
		o.names = make(map[string]time.Time)
	}
	if len(o.names) < maxOwed {
		o.names[name] = at
	}
}

// take yields the releases that are owed and forgets each.
func (o *owed) take() iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		for {
			name, at, ok := o.one()
			if !ok || !yield(name, at) {
				return
			}
		}
	}
}

func (o *owed) one() (name string, at time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, at = range o.names {
		delete(o.names, name)
		return name, at, true
	}
	return "", time.Time{}, false
}
