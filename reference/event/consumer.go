package event

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ConsumerOptions say who handles events, and how.
type ConsumerOptions struct {
	// Redis holds the streams. While it has nothing to do a consumer keeps one connection per shard waiting there.
	Redis redis.UniversalClient
	// Shards are the names of the relay's sources.
	Shards []string
	// Group gets every event once more for itself. Consumers of one group share them.
	Group string
	// Name tells the consumers of a group apart. It must be unique among the living; a consumer that comes back under its
	// old name goes on at once where it was.
	Name string
	// Handle does the work.
	Handle Handler
	// HandleAll, if set, does the work for several events at once, in their order, as Handle would one by one. When it fails,
	// Handle is given each of them by itself.
	HandleAll func(ctx context.Context, events []Event) error
	// Batch is how many events are fetched and acknowledged at a time; 0 means 50. A consumer that dies leaves no more than
	// that to be repeated. What comes after an event that failed comes one by one.
	Batch int
	// Tries is how often an event is given to Handle before it goes to the dead-letter stream events:{shard}:dead, with
	// the group and the last error, where [Consumer.Redrive] finds it; 0 means 5. A try that ended with the consumer's death counts. The event stays in the
	// outbox for the relay's Retention; the dead letter is, as all of Redis, a copy.
	Tries int
	// Yield, if set, says that others need the machine more: after handling events, the consumer then rests for many times as
	// long as that took, but no longer than MaxBackoff. It must answer at once.
	Yield func() bool
	// Timeout bounds one try; 0 means 2 s.
	Timeout time.Duration
	// MaxBackoff is the longest pause between two tries of something that fails; 0 means 5 s.
	MaxBackoff time.Duration
	// ClaimAfter is how long a consumer may be silent before another one takes its event over; 0 means 30 s. It must be
	// longer than Timeout and MaxBackoff together.
	ClaimAfter time.Duration
	// GroupTTL is how long a group that is not among RelayOptions.Groups outlives its last consumer; 0 means 10 min.
	GroupTTL time.Duration
	// Failed is told of every failed try and every failure of Redis, the latter with ErrRedis in the chain. It must not
	// block.
	Failed func(error)
	// Missed, if set, is called when Redis was out of reach for so long that the group may have been removed and events
	// passed it by. It must not block.
	Missed func()
}

func (o ConsumerOptions) withDefaults() (ConsumerOptions, error) {
	for p, standard := range map[*time.Duration]time.Duration{
		&o.Timeout: 2 * time.Second, &o.MaxBackoff: 5 * time.Second, &o.ClaimAfter: 30 * time.Second, &o.GroupTTL: 10 * time.Minute,
	} {
		if *p == 0 {
			*p = standard
		}
		if *p < time.Millisecond {
			return o, errors.New("consumer needs times of a millisecond or more")
		}
	}
	if o.Tries == 0 {
		o.Tries = 5
	}
	if o.Batch == 0 {
		o.Batch = 50
	}
	switch {
	case o.Redis == nil || o.Group == "" || o.Name == "" || o.Handle == nil || o.Failed == nil || o.Tries < 0 || o.Batch < 0:
		return o, errors.New("consumer needs a redis, a group, a name, a handler, a number of tries, a batch and somewhere to report failures")
	case o.ClaimAfter <= o.Timeout+o.MaxBackoff:
		return o, fmt.Errorf("consumer may be silent for %v and would lose its event after %v", o.Timeout+o.MaxBackoff, o.ClaimAfter)
	case o.GroupTTL <= o.ClaimAfter:
		return o, fmt.Errorf("consumer may be silent for %v and would lose its group after %v", o.ClaimAfter, o.GroupTTL)
	}
	return o, nil
}

// Consumer handles events as one member of a group. It is safe for concurrent use.
type Consumer struct {
	o                     ConsumerOptions
	handled, failed, dead atomic.Uint64
}

// NewConsumer prepares a consumer. Run runs it.
func NewConsumer(o ConsumerOptions) (*Consumer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Consumer{o: o}, nil
}

// ConsumerStats counts what a consumer has done.
type ConsumerStats struct {
	Group string
	// Handled counts the events it handled, Failed the tries that failed, Dead the events it gave up.
	Handled, Failed, Dead uint64
}

// Stats tells what the consumer has done.
func (c *Consumer) Stats() ConsumerStats {
	return ConsumerStats{Group: c.o.Group, Handled: c.handled.Load(), Failed: c.failed.Load(), Dead: c.dead.Load()}
}

// Join makes the group on every shard, so that whatever is added to a stream from now on will reach it. Run does the same by
// itself, a moment later.
func (c *Consumer) Join(ctx context.Context) error {
	for _, shard := range c.o.Shards {
		if err := c.join(ctx, newStream(c.o.Redis, shard)); err != nil {
			return fmt.Errorf("group %s: %w", c.o.Group, err)
		}
	}
	return nil
}

// Run handles events until ctx ends, which ends the running tries too. The shards run side by side.
func (c *Consumer) Run(ctx context.Context) {
	var lanes sync.WaitGroup
	for _, shard := range c.o.Shards {
		lanes.Go(func() { c.follow(ctx, newStream(c.o.Redis, shard)) })
	}
	lanes.Wait()
}

// follow handles the events of one shard, one after the other.
func (c *Consumer) follow(ctx context.Context, s stream) {
	var (
		last    outcome // of the events before, not yet told to Redis
		contact time.Time
		trouble = backoff{most: c.o.MaxBackoff} // of Redis
		retry   = backoff{most: c.o.MaxBackoff} // of the event
	)
	for ctx.Err() == nil {
		turn, err := c.next(ctx, s, last, c.o.Batch)
		if isNoGroup(err) { // Redis lost it, or it never was
			if err = c.join(ctx, s); err == nil {
				continue
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				c.o.Failed(fmt.Errorf("group %s: %w", c.o.Group, err))
				trouble.wait(ctx)
			}
			continue
		}
		if !contact.IsZero() && time.Since(contact) > c.o.GroupTTL && c.o.Missed != nil {
			c.o.Missed()
		}
		last, contact = outcome{}, time.Now()
		trouble.reset()
		switch turn.state {
		case idle:
			c.await(ctx, s, turn.newest)
		case busy:
			pause(ctx, min(c.o.ClaimAfter/4, time.Second))
		case given:
			began := time.Now()
			last = c.work(ctx, turn.entries)
			if last.verdict == again || last.verdict == wait {
				retry.wait(ctx)
				continue
			}
			retry.reset()
			if c.o.Yield != nil && c.o.Yield() {
				rest := min(restShare*time.Since(began), c.o.MaxBackoff)
				if _, err := c.next(ctx, s, last, 0); err == nil { // else the next turn tells
					last = outcome{}
				}
				pause(ctx, rest)
			}
		}
	}
	if len(last.done)+len(last.rest) > 0 { // an orderly end repeats nothing
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := c.next(ctx, s, last, 0); err != nil {
			c.o.Failed(fmt.Errorf("group %s: %w", c.o.Group, err))
		}
	}
}

// join makes the group.
func (c *Consumer) join(ctx context.Context, s stream) error {
	if err := c.o.Redis.Set(ctx, s.seen(c.o.Group), c.o.Name, c.o.GroupTTL).Err(); err != nil {
		return failed(err)
	}
	_, _, err := s.ensure(ctx, c.o.Group)
	return err
}

// await returns when there is an entry after the one given, after a while, or when Redis fails, which the next turn will
// tell.
func (c *Consumer) await(ctx context.Context, s stream, entry string) {
	const long = 500 * time.Millisecond // Run may take that much longer to end
	began := time.Now()
	err := c.o.Redis.XRead(ctx, &redis.XReadArgs{Streams: []string{s.key, entry}, Count: 1, Block: long}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		pause(ctx, max(0, firstPause-time.Since(began)))
	}
}

// work handles events until one fails, until ctx ends, or until so much time has passed that one more could take it past
// ClaimAfter.
func (c *Consumer) work(ctx context.Context, entries []entry) (out outcome) {
	began := time.Now()
	if c.workAll(ctx, entries) {
		return outcome{done: entries}
	}
	for i, e := range entries {
		if i > 0 && (ctx.Err() != nil || time.Since(began)+c.o.Timeout+c.o.MaxBackoff >= c.o.ClaimAfter) {
			out.rest = entries[i:]
			return out
		}
		if out.verdict, out.reason = c.try(ctx, &e); out.verdict != done {
			out.tried, out.rest = e, entries[i+1:]
			return out
		}
		out.done = append(out.done, e)
	}
	out.verdict = none
	return out
}

// workAll gives all the events to the handler of many, if there is one, and says whether it handled them.
func (c *Consumer) workAll(ctx context.Context, entries []entry) bool {
	if c.o.HandleAll == nil || len(entries) < 2 {
		return false
	}
	events := make([]Event, len(entries))
	for i, e := range entries {
		var err error
		if events[i], err = decode(e.event); err != nil {
			return false
		}
	}
	if c.safely(ctx, func(ctx context.Context) error { return c.o.HandleAll(ctx, events) }) != nil {
		return false // one by one it will show what is wrong
	}
	c.handled.Add(uint64(len(events)))
	return true
}

// try gives the event to the handler and judges what comes of it.
func (c *Consumer) try(ctx context.Context, t *entry) (v verdict, reason string) {
	e, err := decode(t.event)
	switch {
	case err != nil: // nobody will ever be able to read it
		t.delivery = c.o.Tries
	case t.delivery > c.o.Tries:
		err = fmt.Errorf("no answer to %d deliveries", t.delivery-1)
	default:
		err = c.handle(ctx, e)
	}
	var away unavailable
	switch {
	case err == nil:
		c.handled.Add(1)
		return done, ""
	case ctx.Err() != nil: // it was not the handler's fault
		return none, ""
	case errors.As(err, &away):
		c.failed.Add(1)
		c.o.Failed(err)
		return wait, ""
	case t.delivery < c.o.Tries:
		c.failed.Add(1)
		c.o.Failed(err)
		return again, ""
	}
	c.failed.Add(1)
	c.dead.Add(1)
	c.o.Failed(fmt.Errorf("%w by %s after %d tries: %w", ErrPoison, c.o.Group, c.o.Tries, err))
	return dead, strings.ToValidUTF8(err.Error(), "\uFFFD")
}

func (c *Consumer) handle(ctx context.Context, e Event) error {
	return c.safely(ctx, func(ctx context.Context) error { return c.o.Handle(ctx, e) })
}

// safely runs a handler within its time. A panic is an error.
func (c *Consumer) safely(ctx context.Context, handler func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("handler panicked: %v", r)
		}
	}()
	return handler(ctx)
}

func isNoGroup(err error) bool { return err != nil && strings.Contains(err.Error(), "NOGROUP") }
