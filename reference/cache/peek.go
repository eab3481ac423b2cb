package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// peekBatch is how many names one command asks for: Redis does nothing else
// meanwhile.
const peekBatch = 500

// Peek tells what Redis says about each of the names. It is for comparing the
// layers and not traffic: nothing is counted.
func (r *Redis) Peek(ctx context.Context, names []string) ([]Answer, error) {
	c := r.begin()
	defer c.running.Done()
	out := make([]Answer, 0, len(names))
	for len(names) > 0 {
		batch := names[:min(peekBatch, len(names))]
		names = names[len(batch):]
		keys := make([]string, len(batch))
		for i, n := range batch {
			keys[i] = keyPrefix + n
		}
		values, err := c.MGet(ctx, keys...).Result()
		if err != nil {
			return nil, fmt.Errorf("peek at entries: %w", err)
		}
		for _, v := range values {
			switch v {
			case valueTaken:
				out = append(out, Taken)
			case valueFree:
				out = append(out, Free)
			default:
				out = append(out, Miss)
			}
		}
	}
	return out, nil
}

// staleFor is how long an entry stays that nobody has corrected: as long as a
// marker.
const staleFor = time.Hour

// LeaveFree leaves an entry that says "free" of a name that has just got an
// owner, as a cache does that is not told of registrations: a fault to be
// diagnosed.
func (r *Redis) LeaveFree(ctx context.Context, name string) error {
	err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error {
		return c.Set(ctx, keyPrefix+name, valueFree, staleFor).Err()
	})
	if err != nil {
		return fmt.Errorf("leave entry: %w", err)
	}
	return nil
}
