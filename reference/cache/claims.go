package cache

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// claimsAtOnce is how many registrations one script tells of: Redis does nothing
// else meanwhile.
const claimsAtOnce = 64

// claims lets the registrations that end while Redis is told of others be told
// of together, in one round trip. One that ends alone waits for nobody. The zero
// value is ready for use.
type claims struct {
	mu      sync.Mutex
	queue   []*claim // in the order of arrival
	telling bool
}

// claim is a registration that Redis is to hear of.
type claim struct {
	name  string
	since time.Time
	told  chan error // has room for one
}

// join queues c and says whether somebody has to be started who tells.
func (q *claims) join(c *claim) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, c)
	start, q.telling = !q.telling, true
	return start
}

// take takes the next claims off the queue. With none the teller has to end.
func (q *claims) take() []*claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.queue), claimsAtOnce)
	taken := q.queue[:n:n]
	q.queue = q.queue[n:]
	q.telling = n > 0
	return taken
}

// tellAll tells of claims until there are none. Those that have waited for as
// long as a command may take are not told of: Redis is too slow for them.
func (r *Redis) tellAll(ctx context.Context) {
	for all := r.claims.take(); len(all) > 0; all = r.claims.take() {
		timeout := r.Options().Timeout
		for len(all) > 0 && time.Since(all[0].since) > timeout {
			all[0].told <- r.pool.ended(redis.ErrPoolTimeout, time.Since(all[0].since))
			all = all[1:]
		}
		if len(all) == 0 {
			continue
		}
		err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error { return r.tell(ctx, c, all) })
		for _, c := range all {
			c.told <- err
		}
	}
}

// tell sets the markers of names and tells every instance, in one step.
func (r *Redis) tell(ctx context.Context, c *redis.Client, all []*claim) error {
	keys, args := make([]string, 1, 1+len(all)), make([]any, 2, 2+2*len(all))
	keys[0], args[0], args[1] = newsKey, valueTaken, newsLength
	for _, one := range all {
		keys, args = append(keys, keyPrefix+one.name), append(args, one.name, takenTTL().Milliseconds())
	}
	return r.scripts.claim.Run(ctx, c, keys, args...).Err()
}
