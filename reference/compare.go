package reference

import (
	"context"
	"time"

	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// Comparison is what the layers say about the same names.
type Comparison struct {
	// Shards is how many names were sampled from each; Sampled their sum, and
	// Latest how many of the latest registrations of this instance came on top.
	Shards          []Verified
	Sampled, Latest int
	// Redis and Local are what the caches say about those that have an owner.
	Redis, Local Cached
	// Released counts the names in their cool-down, TooEarly those among them
	// whose cool-down cannot be: it ends sooner after they got their owner than
	// a whole cool-down takes.
	Released, TooEarly int
}

// Cached is what a cache says about names that have an owner: Free is wrong.
type Cached struct {
	Asked, Taken, Free int
	Err                error
}

// Compare samples up to n names that exist, half of them the latest
// registrations of this instance if there are so many, all registered before the
// given time, and asks the caches about them. It returns when ctx ends at the
// latest; what could not be asked says so.
func (s *Service) Compare(ctx context.Context, n int, before time.Time) Comparison {
	var c Comparison
	latest := s.latestBefore(before)
	latest = latest[:min(len(latest), (n+1)/2)]
	c.Latest = len(latest)
	owned := map[string]bool{}
	for _, r := range latest {
		owned[r.Name] = true
	}
	for _, f := range s.sample(ctx, n-len(latest), before) {
		c.Shards = append(c.Shards, Verified{Shard: f.shard, Sampled: len(f.rows), Err: f.err})
		c.Sampled += len(f.rows)
		for _, r := range f.rows {
			switch r.State {
			case name.Claimed, name.Locked:
				owned[r.Name] = true
			case name.Released:
				delete(owned, r.Name)
				c.Released++
				if s.tooEarly(r) {
					c.TooEarly++
				}
			case name.Available:
			}
		}
	}
	names := make([]string, 0, len(owned))
	for n := range owned {
		names = append(names, n)
		taken, known := s.Local.Get(n)
		c.Local.add(answerOf(taken, known))
	}
	answers, err := s.Redis.Peek(ctx, names)
	c.Redis.Err = err
	for _, a := range answers {
		c.Redis.add(a)
	}
	return c
}

func (c *Cached) add(a cache.Answer) {
	c.Asked++
	switch a {
	case cache.Taken:
		c.Taken++
	case cache.Free:
		c.Free++
	case cache.Miss:
	}
}

func answerOf(taken, known bool) cache.Answer {
	switch {
	case !known:
		return cache.Miss
	case taken:
		return cache.Taken
	}
	return cache.Free
}

// tooEarly says that the cool-down of a released name ends earlier than one that
// began when the name got its owner would.
func (s *Service) tooEarly(r shard.Row) bool {
	return r.RecyclableAt.Before(r.CreatedAt.Add(s.coolDown()))
}

// coolDown is how long a released name stays nobody's.
func (s *Service) coolDown() time.Duration {
	if s.CoolDown == 0 {
		return name.CoolDown
	}
	return s.CoolDown
}
