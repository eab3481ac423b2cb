package cache

import (
	"context"
	"fmt"
	"time"
)

// How often the upkeep does what.
const (
	sweepEvery = 250 * time.Millisecond
	hotEvery   = 10 * time.Second
)

// HotNames tells the names that are asked for most at present.
type HotNames interface {
	// HotNames returns them, hottest first. It answers from memory.
	HotNames() []string
}

// Upkeep does what Redis needs done from time to time: second deletes, what is
// owed, permanent markers. Every instance should run one: what an instance owes
// nobody else knows. It has a connection of its own, outside the pool.
type Upkeep struct {
	Redis *Redis
	Hot   HotNames // nil for no permanent markers
	// Failed, if any, is told when something fails, once until it works again.
	Failed func(error)
}

// Run works until ctx ends.
func (u *Upkeep) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	options := u.Redis.Options()
	options.PoolSize = 1
	options.ClientName += "-upkeep"
	client := options.client(nil)
	defer func() { _ = client.Close() }()
	var hotAt time.Time
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := u.Redis.Options(); now.Address != options.Address {
			_ = client.Close()
			options.Address = now.Address
			client = options.client(nil)
		}
		now := time.Now()
		err := u.bounded(ctx, options.Timeout, func(ctx context.Context) error { return u.Redis.sweep(ctx, client, now) })
		if err == nil && u.Hot != nil && now.Sub(hotAt) >= hotEvery {
			hotAt = now
			err = u.bounded(ctx, options.Timeout, func(ctx context.Context) error {
				_, err := u.Redis.keepHot(ctx, client, u.Hot.HotNames(), now)
				return err
			})
		}
		if err != nil && ctx.Err() == nil && !failing && u.Failed != nil {
			u.Failed(fmt.Errorf("upkeep of redis: %w", err))
		}
		failing = err != nil
	}
}

func (*Upkeep) bounded(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}
