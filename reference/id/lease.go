package id

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrLease says that there is no id because the machine number is not surely held, or not that far into the future.
var ErrLease = errors.New("the machine number is not held")

// LeaseOptions tune a [Lease]. The zero value is usable.
type LeaseOptions struct {
	// Prefix is what the keys in Redis begin with; empty means "ids:".
	Prefix string
	// TTL is how long the number stays held without a renewal; 0 means 30 s. It is renewed three times as often.
	TTL time.Duration
	// Failed is told of every renewal that failed. It must not block. Nil means that nobody is.
	Failed func(error)
	// Now is the clock of the ids; nil means [time.Now]. How long the lease lasts is told by the monotonic clock alone.
	Now func() time.Time
}

// Lease holds a machine number in Redis: a key per number, set only if it is not there, with the owner's token, for a time.
//
// No two instances hold one number. The holder counts its time from before it asked, and stops a tenth of it early, so that
// it has ended before Redis can give the number away, however long the answers take. While Redis fails, ids go on until
// then. A Redis that has started less than a TTL ago may have lost the keys of leases that still last: it gives none
// before that. (One that a replica has taken over from may have lost a key too, and is not known by that: use a Redis that
// waits for its replicas, or fixed numbers.)
//
// A second key, without an end, keeps how far the holder's ids may have come, so that the next one, whose clock may be
// behind, begins above them.
type Lease struct {
	client redis.UniversalClient
	o      LeaseOptions
	number int
	token  string
	floor  time.Time

	mu    sync.Mutex
	valid time.Time // by the monotonic clock
	mark  time.Time // ids may come so far
	used  time.Time // ids have come so far
	ended error     // why there are no ids any more, for good

	stop context.CancelFunc
	done chan struct{}
}

var _ Machine = (*Lease)(nil)

// claimScript gives the number to the token, if nobody else has it, for ARGV[2] ms, and answers the mark before; it then sets
// the mark to ARGV[3], if that is later. Without the number it answers -1. Times are in ms since 1970.
var claimScript = redis.NewScript(`
	local holder = redis.call('GET', KEYS[1])
	if holder and holder ~= ARGV[1] then return -1 end
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	local mark = tonumber(redis.call('GET', KEYS[2]) or '0')
	if tonumber(ARGV[3]) > mark then redis.call('SET', KEYS[2], ARGV[3]) end
	return mark`)

// releaseScript gives the number back, and sets the mark to what was used.
var releaseScript = redis.NewScript(`
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	redis.call('SET', KEYS[2], ARGV[2])
	return redis.call('DEL', KEYS[1])`)

// Acquire takes any machine number that is free and keeps it until Close. The client stays the caller's.
func Acquire(ctx context.Context, client redis.UniversalClient, o LeaseOptions) (*Lease, error) {
	if o.Prefix == "" {
		o.Prefix = "ids:"
	}
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Lease{client: client, o: o, token: rand.Text(), done: make(chan struct{})}
	if err := l.old(ctx); err != nil {
		return nil, fmt.Errorf("lease a machine number: %w", err)
	}
	for _, l.number = range mathrand.Perm(Machines) {
		start := time.Now()
		mark := l.nextMark()
		before, err := claimScript.Run(ctx, client, l.keys(), l.token, o.TTL.Milliseconds(), mark.UnixMilli()).Int64()
		if err != nil {
			return nil, fmt.Errorf("lease a machine number: %w", err)
		}
		if before < 0 {
			continue
		}
		if before > 0 {
			l.floor = time.UnixMilli(before)
		}
		l.valid, l.mark, l.used = l.end(start), latest(mark, l.floor), l.floor
		if l.floor.After(l.o.Now()) { // the first ids lie beyond it, and have to be reserved too
			if err := l.extend(ctx); err != nil {
				return nil, fmt.Errorf("lease a machine number: %w", err)
			}
		}
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		l.stop = stop
		go l.renew(running)
		return l, nil
	}
	return nil, fmt.Errorf("lease a machine number: all %d are held", Machines)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (l *Lease) keys() []string {
	n := strconv.Itoa(l.number)
	return []string{l.o.Prefix + "{" + n + "}:holder", l.o.Prefix + "{" + n + "}:mark"} // one slot of a Redis cluster
}

// end is when a lease that was asked for at start has ended for its holder.
func (l *Lease) end(start time.Time) time.Time { return start.Add(l.o.TTL - l.o.TTL/10) }

// nextMark is how far ids may come while the lease lasts without another renewal, also while the clock is behind.
func (l *Lease) nextMark() time.Time { return latest(l.o.Now(), l.used).Add(l.o.TTL) }

// old returns an error unless Redis runs longer than a lease lasts.
func (l *Lease) old(ctx context.Context) error {
	info, err := l.client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	_, after, found := strings.Cut(info, "uptime_in_seconds:")
	text, _, _ := strings.Cut(after, "\r")
	up, err := strconv.Atoi(text)
	if !found || err != nil {
		return errors.New("redis does not tell its uptime")
	}
	if age := time.Duration(up-1) * time.Second; age <= l.o.TTL { // it counts turns of the second, not seconds
		return fmt.Errorf("redis has been up for %d s and may have forgotten leases of %v, wait", up, l.o.TTL)
	}
	return nil
}

// renew extends the lease until it is closed.
func (l *Lease) renew(ctx context.Context) {
	defer close(l.done)
	ticker := time.NewTicker(l.o.TTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := l.extend(ctx); err != nil && ctx.Err() == nil {
			l.o.Failed(fmt.Errorf("renew machine number %d: %w", l.number, err))
		}
	}
}

// extend extends the lease once. One that has ended is taken up again only from a Redis that forgets none; one that belongs
// to somebody else never.
func (l *Lease) extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.TTL/3)
	defer cancel()
	l.mu.Lock()
	start, late, ended, mark := time.Now(), time.Now().After(l.valid), l.ended, l.nextMark()
	l.mu.Unlock()
	if ended != nil {
		return ended
	}
	if late {
		if err := l.old(ctx); err != nil {
			return err
		}
	}
	before, err := claimScript.Run(ctx, l.client, l.keys(), l.token, l.o.TTL.Milliseconds(), mark.UnixMilli()).Int64()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before < 0 || late && time.UnixMilli(before).After(l.mark) { // somebody else has it, or had it meanwhile
		l.ended = fmt.Errorf("%w: somebody else has taken number %d", ErrLease, l.number)
		return l.ended
	}
	l.valid, l.mark = l.end(start), latest(mark, l.mark)
	return nil
}

// Number implements [Machine].
func (l *Lease) Number() int { return l.number }

// Floor implements [Machine].
func (l *Lease) Floor() time.Time { return l.floor }

// Covers implements [Machine].
func (l *Lease) Covers(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended != nil:
		return l.ended
	case !time.Now().Before(l.valid):
		return fmt.Errorf("%w: number %d could not be renewed in time", ErrLease, l.number)
	case at.After(l.mark):
		return fmt.Errorf("%w: the clock has run ahead of what is reserved for number %d", ErrLease, l.number)
	}
	return nil
}

// Used implements [Machine].
func (l *Lease) Used(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = latest(at, l.used)
}

// Close gives the number back. There are no ids from then on.
func (l *Lease) Close(ctx context.Context) error {
	l.stop()
	<-l.done
	l.mu.Lock()
	held := l.ended == nil && time.Now().Before(l.valid)
	l.ended = fmt.Errorf("%w: number %d was given back", ErrLease, l.number)
	used := max(0, l.used.UnixMilli())
	l.mu.Unlock()
	if !held {
		return nil
	}
	if err := releaseScript.Run(ctx, l.client, l.keys(), l.token, used).Err(); err != nil {
		return fmt.Errorf("release machine number %d: %w", l.number, err)
	}
	return nil
}
