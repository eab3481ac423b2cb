package event

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Outbox is where the events of one shard wait. A [shard.Store] is one.
type Outbox interface {
	// Outbox lists up to limit events that are not published, by ascending id. A smaller id may appear after a larger one
	// was listed; those of one name appear in order.
	Outbox(ctx context.Context, limit int) ([]Event, error)
	// MarkPublished takes events off the Outbox. To do it again changes nothing.
	MarkPublished(ctx context.Context, ids []int64) error
	// Purge deletes up to limit events that were published before the time given, and answers how many.
	Purge(ctx context.Context, before time.Time, limit int) (int64, error)
}

// Source is a shard with its name, which goes into its events and into the name of its stream and so must never change.
type Source struct {
	Name   string
	Outbox Outbox
}

// RelayOptions say what a relay copies, and for whom.
type RelayOptions struct {
	// Redis holds the streams. Its pool should be the relay's and the consumers' own.
	Redis redis.UniversalClient
	// Sources are the shards.
	Sources []Source
	// Groups must acknowledge every event, whether a consumer of theirs runs or not. Groups beside them count as long as
	// their consumers come; see [ConsumerOptions.GroupTTL].
	Groups []string
	// Batch is how many events are added or removed at a time; 0 means 500.
	Batch int
	// Window is how many events of one shard may be in Redis, give or take a Batch; 0 means 2,000.
	// Every look reads so many at most, which is what a long queue costs the shard.
	Window int
	// Tick is how often a shard is looked at when nobody calls Wake; 0 means 1 s.
	Tick time.Duration
	// MaxBackoff is the longest pause between two tries of something that fails; 0 means 5 s.
	MaxBackoff time.Duration
	// Retention is how long a published event stays in the database, for a Republish and for those who look; 0 means
	// 7 days.
	Retention time.Duration
	// Failed is told of every failure, with ErrRedis or ErrOutbox in the chain. It must not block.
	Failed func(error)
}

func (o RelayOptions) withDefaults() (RelayOptions, error) {
	for p, standard := range map[*time.Duration]time.Duration{
		&o.Tick: time.Second, &o.MaxBackoff: 5 * time.Second, &o.Retention: 7 * 24 * time.Hour,
	} {
		if *p == 0 {
			*p = standard
		}
		if *p < 0 {
			return o, errors.New("relay needs positive times")
		}
	}
	if o.Batch == 0 {
		o.Batch = 500
	}
	if o.Window == 0 {
		o.Window = 2_000
	}
	if o.Redis == nil || o.Failed == nil || len(o.Groups) == 0 || o.Batch < 0 || o.Window < 0 {
		return o, errors.New("relay needs a redis, groups, positive limits and somewhere to report failures")
	}
	names := map[string]bool{}
	for _, s := range o.Sources {
		if s.Name == "" || s.Outbox == nil || names[s.Name] {
			return o, fmt.Errorf("relay needs an outbox and a name of its own for each source, got %q", s.Name)
		}
		names[s.Name] = true
	}
	return o, nil
}

// Relay copies events from the outboxes of the shards to Redis, and takes off the outboxes what every group has
// acknowledged. Any number of relays may run over the same shards, one in each instance: Redis itself refuses an event
// that is in the stream already, so they need neither a lock nor a leader. It is safe for concurrent use.
type Relay struct {
	o     RelayOptions
	lanes []*relayLane
}

// NewRelay prepares a relay. Run runs it.
func NewRelay(o RelayOptions) (*Relay, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Relay{o: o}
	for _, s := range o.Sources {
		r.lanes = append(r.lanes, &relayLane{
			o: &r.o, source: s, stream: newStream(o.Redis, s.Name), wake: make(chan struct{}, 1),
			stats: RelayStats{Shard: s.Name},
		})
	}
	return r, nil
}

// Wake tells that source i, counted as in Sources, has committed an event. It never blocks and costs next to nothing.
func (r *Relay) Wake(i int) {
	select {
	case r.lanes[i].wake <- struct{}{}:
	default: // it is awake
	}
}

// Run relays until ctx ends. The shards run side by side: one that hangs holds up none but itself.
func (r *Relay) Run(ctx context.Context) {
	var lanes sync.WaitGroup
	for _, l := range r.lanes {
		lanes.Go(func() { l.run(ctx) })
	}
	lanes.Wait()
}

// RelayStats is the state of one shard's events.
type RelayStats struct {
	Shard string
	// Unpublished counts the events that some group has not acknowledged, as far as the relay looked: when More is set,
	// there may be more of them.
	Unpublished int
	More        bool
	// Oldest is when the oldest of them happened; zero if there is none.
	Oldest time.Time
	// InStream counts those of them that are in Redis, or were when Redis last answered.
	InStream int
	// DeadLetters counts the events of all groups on the dead-letter stream; see [Consumer.Redrive].
	DeadLetters int
	// Added counts the events that this relay put into the stream, Confirmed those it took off the outbox, Failures its
	// failed tries.
	Added, Confirmed, Failures uint64
	// Groups are all groups of the stream, as they were when Redis last answered.
	Groups []GroupStats
}

// Stats tells how far the relay is on every shard, as of its last look.
func (r *Relay) Stats() []RelayStats {
	out := make([]RelayStats, len(r.lanes))
	for i, l := range r.lanes {
		l.mu.Lock()
		out[i] = l.stats
		l.mu.Unlock()
	}
	return out
}

// LaneError is what a relay tells its Failed: the failure on one shard's way.
type LaneError struct {
	Shard string
	Err   error
}

// Error implements error.
func (e *LaneError) Error() string { return "relay " + e.Shard + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LaneError) Unwrap() error { return e.Err }

// relayLane is the relay of one shard.
type relayLane struct {
	o      *RelayOptions
	source Source
	stream stream
	wake   chan struct{}
	purged time.Time // when nothing was left to purge; run's own

	mu    sync.Mutex
	stats RelayStats
}
