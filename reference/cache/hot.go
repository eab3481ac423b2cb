package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Permanent markers, for the names that are asked for most.
const (
	// MaxHot bounds them, over all instances.
	MaxHot = 100
	// HotFor is how long a name keeps its permanent marker after an instance
	// has last found it hot. It is longer than a round of every instance.
	HotFor = 2 * time.Minute
)

// KeepHot gives the names, hottest first, markers that do not expire, so that
// no popular name ever sends its crowd to a shard at once. Only a name that has
// a "taken" marker gets one, so that it is never a guess, and no more than
// [MaxHot] are given out. Names that no instance has found hot for [HotFor] get
// an ordinary marker again. It returns how many there are now. All of it is one
// step in Redis, where the list is kept: no instance need live to end what it
// began.
func (r *Redis) KeepHot(ctx context.Context, names []string, now time.Time) (hot int, err error) {
	err = r.do(ctx, 1, func(ctx context.Context, c *redis.Client) (err error) {
		hot, err = r.keepHot(ctx, c, names, now)
		return err
	})
	return hot, err
}

func (r *Redis) keepHot(ctx context.Context, c *redis.Client, names []string, now time.Time) (int, error) {
	names = names[:min(len(names), MaxHot)]
	args := make([]any, 0, 6+len(names))
	args = append(args, now.UnixMilli(), now.Add(HotFor).UnixMilli(), MaxHot,
		TakenTTL.Milliseconds(), TakenTTLJitter.Milliseconds(), keyPrefix)
	for _, n := range names {
		args = append(args, n)
	}
	hot, err := r.scripts.hot.Run(ctx, c, []string{hotKey}, args...).Int()
	if err != nil {
		return 0, fmt.Errorf("keep hot names: %w", err)
	}
	return hot, nil
}
