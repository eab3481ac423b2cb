package event_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/event"
	"github.com/regpath/diagnose/reference/local"
)

// patience is how long a test waits for what has to come. It is far more than it takes.
const patience = 30 * time.Second

// eventually waits until what is to be seen is seen.
func eventually(t testing.TB, what string, seen func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !seen() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not seen in %v: %s", patience, what)
		}
	}
}

// outbox is a shard's outbox in memory.
type outbox struct {
	mu        sync.Mutex
	down      error
	last      int64
	rows      map[int64]event.Event
	published map[int64]time.Time
}

func newOutbox() *outbox {
	return &outbox{rows: map[int64]event.Event{}, published: map[int64]time.Time{}}
}

// commit adds an event and answers its id.
func (o *outbox) commit(name string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.rows[o.last] = event.Event{ID: o.last, Type: event.NameClaimed, Name: name, UserID: 1<<60 + o.last, At: time.Now().UTC()}
	return o.last
}

// commitLate adds an event under an id that was given out before others were committed.
func (o *outbox) commitLate(id int64, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows[id] = event.Event{ID: id, Type: event.NameClaimed, Name: name, At: time.Now().UTC()}
}

func (o *outbox) Outbox(ctx context.Context, limit int) ([]event.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down != nil {
		return nil, o.down
	}
	var out []event.Event
	for _, id := range slices.Sorted(maps.Keys(o.rows)) {
		if _, gone := o.published[id]; !gone && len(out) < limit {
			out = append(out, o.rows[id])
		}
	}
	return out, ctx.Err()
}

func (o *outbox) MarkPublished(ctx context.Context, ids []int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if _, ok := o.rows[id]; !ok {
			return fmt.Errorf("no event %d", id)
		}
		o.published[id] = time.Now()
	}
	return cmp.Or(o.down, ctx.Err())
}

func (o *outbox) Purge(_ context.Context, before time.Time, limit int) (n int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, at := range o.published {
		if at.Before(before) && n < int64(limit) {
			delete(o.rows, id)
			delete(o.published, id)
			n++
		}
	}
	return n, nil
}

func (o *outbox) unpublished() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.rows) - len(o.published)
}

func (o *outbox) setDown(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = err
}

// record is a handler's own store: it outlives consumers and Redis.
type record struct {
	mu      sync.Mutex
	order   []event.Event // of the first handling of each event
	times   map[string]int
	running map[string]int // by shard
	overlap bool
}

func newRecord() *record { return &record{times: map[string]int{}, running: map[string]int{}} }

func key(e event.Event) string { return e.Shard + "/" + strconv.FormatInt(e.ID, 10) }

// handler records every event around what is done about it.
func (r *record) handler(do event.Handler) event.Handler {
	return func(ctx context.Context, e event.Event) error {
		r.mu.Lock()
		r.running[e.Shard]++
		r.overlap = r.overlap || r.running[e.Shard] > 1
		r.mu.Unlock()
		err := do(ctx, e)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running[e.Shard]--
		if err == nil {
			if r.times[key(e)]++; r.times[key(e)] == 1 {
				r.order = append(r.order, e)
			}
		}
		return err
	}
}

func (r *record) distinct() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order)
}

func (r *record) handled(shard string, id int64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[key(event.Event{Shard: shard, ID: id})]
}

// checkOrder complains when the first handlings of the events of one name are not in the order of their ids.
func (r *record) checkOrder(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	last := map[string]int64{}
	for _, e := range r.order {
		of := e.Shard + "/" + e.Name
		if e.ID < last[of] {
			t.Errorf("event %d of %q came after %d", e.ID, of, last[of])
		}
		last[of] = e.ID
	}
}

// failures collects what was reported.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *failures) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

func (f *failures) has(is error) bool {
	return slices.ContainsFunc(f.all(), func(err error) bool { return errors.Is(err, is) })
}

// bench is a Redis with relays and consumers around it.
type bench struct {
	t       testing.TB
	server  *local.Redis
	client  *redis.Client
	boxes   []*outbox
	sources []event.Source
	failed  failures
}

func newBench(t testing.TB, genuine bool, shards int) *bench {
	t.Helper()
	server, err := local.StartRedis(context.WithoutCancel(t.Context()), local.RedisOptions{Real: genuine})
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 64, DialerRetries: 1})
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, server: server, client: client}
	for i := range shards {
		box := newOutbox()
		b.boxes = append(b.boxes, box)
		b.sources = append(b.sources, event.Source{Name: "shard" + strconv.Itoa(i), Outbox: box})
	}
	return b
}

// both runs a test on the embedded and on the real Redis.
func both(t *testing.T, check func(t *testing.T, genuine bool)) {
	for name, genuine := range map[string]bool{"embedded": false, "real": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, genuine)
		})
	}
}

// relay runs a relay for the groups until the test ends, or until stop is called.
func (b *bench) relay(change func(*event.RelayOptions), groups ...string) (r *event.Relay, stop func()) {
	b.t.Helper()
	o := event.RelayOptions{
		Redis: b.client, Sources: b.sources, Groups: groups, Failed: b.failed.add,
		Tick: 20 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
	}
	if change != nil {
		change(&o)
	}
	r, err := event.NewRelay(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return r, b.run(r.Run)
}

// consumer runs a consumer until the test ends, or until stop is called.
func (b *bench) consumer(group, name string, h event.Handler, change func(*event.ConsumerOptions)) (c *event.Consumer, stop func()) {
	b.t.Helper()
	o := event.ConsumerOptions{
		Redis: b.client, Group: group, Name: name, Handle: h, Failed: b.failed.add,
		MaxBackoff: 100 * time.Millisecond,
	}
	for _, s := range b.sources {
		o.Shards = append(o.Shards, s.Name)
	}
	if change != nil {
		change(&o)
	}
	c, err := event.NewConsumer(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return c, b.run(c.Run)
}

func (b *bench) run(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	stop = func() { cancel(); <-ended }
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) unpublished() (n int) {
	for _, box := range b.boxes {
		n += box.unpublished()
	}
	return n
}

// drained waits until all is acknowledged, and sees that nothing is left in Redis.
func (b *bench) drained() {
	b.t.Helper()
	eventually(b.t, "all events published", func() bool { return b.unpublished() == 0 })
	eventually(b.t, "empty streams", func() bool {
		for _, s := range b.sources {
			if n, err := b.client.XLen(b.t.Context(), "events:{"+s.Name+"}").Result(); n > 0 || err != nil {
				return false
			}
		}
		return true
	})
}
