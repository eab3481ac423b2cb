package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// LeaseTTL is how long a look-up may take that enters its answer in Redis.
const LeaseTTL = 2 * time.Second

// Lease is the right to enter in Redis what a shard answers for one name (R.
// Nishtala et al., "Scaling Memcache at Facebook", NSDI 2013, section 3.2.1). It
// is a value under the name's own key, so that whatever changes the entry ends
// it: a registration overwrites it, a release deletes it, and a Redis that lost
// its memory has lost it too. The zero Lease gives no right.
type Lease struct{ value string }

// leasePrefix begins the value of a lease; a look-up takes it for a miss.
const leasePrefix = "lease:"

// Lease asks for the lease of name. It must be asked for after Lookup has
// missed and before the shard is asked. Only one look-up at a time gets it, the
// others get the zero Lease.
func (r *Redis) Lease(ctx context.Context, name string) (Lease, error) {
	value := leasePrefix + strconv.FormatUint(rand.Uint64(), 36)
	err := r.do(ctx, 1, func(ctx context.Context, c *redis.Client) error {
		return c.SetArgs(ctx, keyPrefix+name, value, redis.SetArgs{Mode: "NX", TTL: LeaseTTL}).Err()
	})
	switch {
	case errors.Is(err, redis.Nil): // there is a lease, or an answer by now
		return Lease{}, nil
	case err != nil:
		return Lease{}, fmt.Errorf("take lease: %w", err)
	}
	return Lease{value}, nil
}

// Fill enters what the shard answered for name, for [FreeTTL] if it is free,
// and says whether it did: not when the lease is zero, or has ended because the
// name was registered or released since, or because too much time went by.
func (r *Redis) Fill(ctx context.Context, name string, l Lease, taken bool) (entered bool, err error) {
	if l.value == "" {
		return false, nil
	}
	value, ttl := valueFree, FreeTTL
	if taken {
		value, ttl = valueTaken, takenTTL()
	}
	err = r.do(ctx, 1, func(ctx context.Context, c *redis.Client) (err error) {
		entered, err = r.scripts.fill.Run(ctx, c, []string{keyPrefix + name}, l.value, value, ttl.Milliseconds()).Bool()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("enter answer: %w", err)
	}
	return entered, nil
}
