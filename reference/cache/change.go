package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeleteAgainAfter is how long after a release the marker is deleted again:
// longer than a command on its way takes.
const DeleteAgainAfter = 500 * time.Millisecond

// Claimed sets the exact marker of name after its registration and tells every
// instance, in one step. It shares that step with those who come at the same
// time, whatever becomes of ctx. After an error the news are owed, and the next
// Sweep of this Redis tells them.
func (r *Redis) Claimed(ctx context.Context, name string) error {
	c := &claim{name: name, since: time.Now(), told: make(chan error, 1)}
	if r.claims.join(c) {
		go r.tellAll(context.WithoutCancel(ctx))
	}
	if err := <-c.told; err != nil {
		r.owed.addClaim(name)
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
		r.owed.addRelease(name, at)
		return fmt.Errorf("delete marker: %w", err)
	}
	return nil
}

func (r *Redis) release(ctx context.Context, c *redis.Client, name string, at time.Time) error {
	return r.scripts.release.Run(ctx, c, []string{keyPrefix + name, newsKey, againKey, hotKey},
		name, at.Add(DeleteAgainAfter).UnixMilli(), newsLength).Err()
}

// sweepSize is how many second deletes one script does, and how many news are
// told at once: Redis does nothing else meanwhile.
const sweepSize = 200

// Sweep makes good the releases and the news that are owed and does the second
// deletes that are due at now, of whatever instance. It is for the upkeep and not traffic.
func (r *Redis) Sweep(ctx context.Context, now time.Time) error {
	return r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error { return r.sweep(ctx, c, now) })
}

func (r *Redis) sweep(ctx context.Context, c *redis.Client, now time.Time) error {
	for name, at := range r.owed.takeReleases() {
		if err := r.release(ctx, c, name, at); err != nil {
			r.owed.addRelease(name, at)
			return fmt.Errorf("make good a release: %w", err)
		}
	}
	if err := r.tellClaims(ctx, c); err != nil {
		return err
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

// tellClaims tells the news of registrations that are owed, for the filters of
// other instances and not for the caches: the name may be somebody else's, or
// nobody's, by now, and of that a filter knows nothing. Where there were too
// many to keep, it tells that.
func (r *Redis) tellClaims(ctx context.Context, c *redis.Client) error {
	for {
		names, lost := r.owed.takeClaims()
		if len(names) == 0 && !lost {
			return nil
		}
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			say := func(values ...string) {
				p.XAdd(ctx, &redis.XAddArgs{Stream: newsKey, MaxLen: newsLength, Approx: true, Values: values})
			}
			for _, name := range names {
				say("name", name, "is", newsKnown)
			}
			if lost {
				say("is", newsLost)
			}
			return nil
		})
		if err != nil {
			r.owed.putBack(names, lost)
			return fmt.Errorf("tell of registrations: %w", err)
		}
	}
}
