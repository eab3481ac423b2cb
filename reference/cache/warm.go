package cache

import (
	"context"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"
)

// bulk is how many markers MarkAllTaken sends at a time.
const bulk = 500

// MarkAllTaken sets the markers of many names, which warms a cache that is
// empty.
func (r *Redis) MarkAllTaken(ctx context.Context, names iter.Seq[string]) error {
	batch := make([]string, 0, bulk)
	send := func() error {
		err := r.do(ctx, len(batch), func(ctx context.Context, c *redis.Client) error {
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, n := range batch {
					p.Set(ctx, keyPrefix+n, valueTaken, takenTTL())
				}
				return nil
			})
			return err
		})
		batch = batch[:0]
		if err != nil {
			return fmt.Errorf("set taken markers: %w", err)
		}
		return nil
	}
	for n := range names {
		if batch = append(batch, n); len(batch) < bulk {
			continue
		}
		if err := send(); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return send()
}
