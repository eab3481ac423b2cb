package event_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/event"
)

// TestPoison gives up an event that cannot be handled, with its error, and goes on with the next.
func TestPoison(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g", "other")
		r, other, tries := newRecord(), newRecord(), atomic.Int32{}
		c, _ := b.consumer("g", "c", r.handler(func(_ context.Context, e event.Event) error {
			switch e.Name {
			case "poison":
				tries.Add(1)
				return errors.New("cannot bear \xff it")
			case "mine":
				panic("boom")
			}
			return nil
		}), func(o *event.ConsumerOptions) { o.Tries = 3 })
		b.consumer("other", "c", other.handler(fine), nil)
		for _, name := range []string{"a", "poison", "b", "mine", "c"} {
			b.boxes[0].commit(name)
		}
		eventually(t, "the others", func() bool { return r.handled("shard0", 5) == 1 })
		b.drained()
		if got := tries.Load(); got != 3 {
			t.Errorf("%d tries, want 3", got)
		}
		if got, want := c.Stats(), (event.ConsumerStats{Group: "g", Handled: 3, Failed: 6, Dead: 2}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		if !b.failed.has(event.ErrPoison) {
			t.Errorf("failures %v, want one with %v", b.failed.all(), event.ErrPoison)
		}
		if got := other.distinct(); got != 5 {
			t.Errorf("the other group handled %d events, want 5", got)
		}
		letters, err := b.client.XRange(t.Context(), "events:{shard0}:dead", "-", "+").Result()
		if err != nil || len(letters) != 2 {
			t.Fatalf("dead letters %v, error %v, want two", letters, err)
		}
		for i, want := range []map[string]string{
			{"group": "g", "deliveries": "3", "error": "cannot bear \uFFFD it", "event": `"name":"poison"`},
			{"group": "g", "deliveries": "3", "error": "handler panicked: boom", "event": `"name":"mine"`},
		} {
			for field, text := range want {
				if got, _ := letters[i].Values[field].(string); !strings.Contains(got, text) {
					t.Errorf("dead letter %d: %s = %q, want %q", i, field, got, text)
				}
			}
		}
	})
}

// TestBatch fetches events together. After one that fails the others are given one by one, as if they had not been given
// before; the handler of many is asked first and has the last word on none.
func TestBatch(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		for _, name := range []string{"a", "b", "bad", "a", "b", "a"} {
			b.boxes[0].commit(name)
		}
		relay, _ := b.relay(nil, "g", "many")
		eventually(t, "all in the stream", func() bool { relay.Wake(0); return relay.Stats()[0].InStream == 6 })
		handle := func(_ context.Context, e event.Event) error {
			if e.Name == "bad" {
				return errors.New("bad")
			}
			return nil
		}
		var together atomic.Int32
		for group, all := range map[string]func(context.Context, []event.Event) error{
			"g": nil,
			"many": func(_ context.Context, events []event.Event) error {
				together.Add(1)
				for _, e := range events {
					if e.Name == "bad" {
						panic("bad")
					}
				}
				return nil
			},
		} {
			r := newRecord()
			c, _ := b.consumer(group, "c", r.handler(handle), func(o *event.ConsumerOptions) { o.Tries, o.HandleAll = 2, all })
			want := event.ConsumerStats{Group: group, Handled: 5, Failed: 2, Dead: 1}
			eventually(t, fmt.Sprintf("%+v", want), func() bool { return c.Stats() == want })
			r.checkOrder(t)
			for _, id := range []int64{1, 2, 4, 5, 6} {
				if got := r.handled("shard0", id); got != 1 {
					t.Errorf("%s handled event %d %d times, want once", group, id, got)
				}
			}
		}
		if got := together.Load(); got != 1 {
			t.Errorf("the handler of many was asked %d times, want once", got)
		}
		b.drained()
		for range 50 {
			b.boxes[0].commit("c")
		}
		b.drained()
		if got := together.Load(); got < 2 {
			t.Error("the handler of many was not asked again")
		}
	})
}

// TestRedrive handles what was given up once the reason has gone, and leaves what still fails and what is another group's.
func TestRedrive(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 2)
		relay, _ := b.relay(nil, "g", "other")
		var mended atomic.Bool
		r := newRecord()
		bad := func(_ context.Context, e event.Event) error {
			if e.Name == "poison" || !mended.Load() {
				return errors.New("cannot bear it")
			}
			return nil
		}
		once := func(o *event.ConsumerOptions) { o.Tries = 1 }
		c, _ := b.consumer("g", "c", r.handler(bad), once)
		b.consumer("other", "c", bad, once)
		for i := range 205 { // more than are read at a time
			b.boxes[i%2].commit(fmt.Sprintf("name%d", i))
		}
		b.boxes[0].commit("poison")
		b.drained()
		letters := func() (n int) {
			for _, s := range relay.Stats() {
				n += s.DeadLetters
			}
			return n
		}
		eventually(t, "the letters are counted", func() bool { relay.Wake(0); relay.Wake(1); return letters() == 2*206 })
		mended.Store(true)
		for _, want := range []event.Redriven{{Handled: 205, Left: 1}, {Left: 1}} {
			if got, err := c.Redrive(t.Context()); err != nil || got != want {
				t.Errorf("Redrive = %+v, %v, want %+v", got, err, want)
			}
		}
		if got := r.handled("shard1", 1); got != 1 || r.distinct() != 205 {
			t.Errorf("an event was handled %d times, and %d events, want once, and 205", got, r.distinct())
		}
		eventually(t, "the rest is counted", func() bool { relay.Wake(0); relay.Wake(1); return letters() == 206+1 })
	})
}

// TestUnavailable waits for what a handler needs, however long it takes, and tries a failing event afterwards as often
// as any other.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g")
		r, away, tries := newRecord(), atomic.Int32{}, atomic.Int32{}
		c, _ := b.consumer("g", "c", r.handler(func(context.Context, event.Event) error {
			if away.Add(1) <= 8 {
				return fmt.Errorf("wrapped: %w", event.Unavailable(errors.New("away")))
			}
			if tries.Add(1) < 3 {
				return errors.New("bad luck")
			}
			return nil
		}), func(o *event.ConsumerOptions) { o.Tries = 3 })
		b.boxes[0].commit("love")
		b.drained()
		if got, want := c.Stats(), (event.ConsumerStats{Group: "g", Handled: 1, Failed: 10}); got != want || r.distinct() != 1 {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

// TestGarbage gets past an entry that nobody can read.
func TestGarbage(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g")
		r := newRecord()
		for _, values := range [][]string{{"event", "{"}, {"x", "y"}} {
			if err := b.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "events:{shard0}", Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		c, _ := b.consumer("g", "c", r.handler(fine), nil)
		b.boxes[0].commit("love")
		eventually(t, "the event", func() bool { return r.distinct() == 1 })
		b.drained()
		if got := c.Stats().Dead; got != 2 {
			t.Errorf("%d given up, want 2", got)
		}
	})
}

// TestTimeout ends a try that takes too long.
func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 1)
	b.relay(nil, "g")
	var tries atomic.Int32
	b.consumer("g", "c", func(ctx context.Context, _ event.Event) error {
		if tries.Add(1) == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, func(o *event.ConsumerOptions) { o.Timeout = 50 * time.Millisecond })
	b.boxes[0].commit("love")
	b.drained()
	if !b.failed.has(context.DeadlineExceeded) {
		t.Errorf("failures %v, want one with %v", b.failed.all(), context.DeadlineExceeded)
	}
}

// TestYield rests after each event, for a multiple of the time that it took, while others need the machine more.
func TestYield(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g")
		const work, rest = 10 * time.Millisecond, 100 * time.Millisecond
		var rests []time.Duration
		var ended time.Time
		r := newRecord()
		c, stop := b.consumer("g", "c", r.handler(func(ctx context.Context, _ event.Event) error {
			if !ended.IsZero() {
				rests = append(rests, time.Since(ended))
			}
			select {
			case <-time.After(work):
			case <-ctx.Done():
			}
			ended = time.Now()
			return ctx.Err()
		}), func(o *event.ConsumerOptions) { o.Batch, o.Yield, o.MaxBackoff = 1, func() bool { return true }, rest })
		for range 4 {
			b.boxes[0].commit("a")
		}
		eventually(t, "all handled", func() bool { return c.Stats().Handled == 4 })
		b.drained()
		stop()
		if len(rests) != 3 {
			t.Fatalf("rests %v, want three", rests)
		}
		for _, got := range rests {
			if got < rest {
				t.Errorf("rests %v, want %v at least", rests, rest)
			}
		}
	})
}

// TestOrderlyEnd repeats nothing after a consumer that was told to end: it acknowledges what it is done with, and what
// was cut short comes at once when it is back under its name.
func TestOrderlyEnd(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g")
		b.boxes[0].commit("a")
		b.boxes[0].commit("b")
		r, entered, finish := newRecord(), make(chan struct{}), make(chan struct{})
		_, stop := b.consumer("g", "c", r.handler(func(context.Context, event.Event) error {
			close(entered)
			<-finish // a handler that does not care about its context
			return nil
		}), nil)
		<-entered
		time.AfterFunc(50*time.Millisecond, func() { close(finish) })
		stop()
		cut := make(chan struct{})
		_, stop = b.consumer("g", "c", r.handler(func(ctx context.Context, _ event.Event) error {
			close(cut)
			<-ctx.Done()
			return ctx.Err()
		}), nil)
		<-cut
		stop()
		b.consumer("g", "c", r.handler(fine), nil) // would have to wait for ClaimAfter under another name
		b.drained()
		for id := int64(1); id <= 2; id++ {
			if got := r.handled("shard0", id); got != 1 {
				t.Errorf("event %d handled %d times, want once", id, got)
			}
		}
	})
}

func TestConsumerOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 1)
	for name, spoil := range map[string]func(*event.ConsumerOptions){
		"no redis":    func(o *event.ConsumerOptions) { o.Redis = nil },
		"no group":    func(o *event.ConsumerOptions) { o.Group = "" },
		"no name":     func(o *event.ConsumerOptions) { o.Name = "" },
		"no handler":  func(o *event.ConsumerOptions) { o.Handle = nil },
		"no Failed":   func(o *event.ConsumerOptions) { o.Failed = nil },
		"tries":       func(o *event.ConsumerOptions) { o.Tries = -1 },
		"batch":       func(o *event.ConsumerOptions) { o.Batch = -1 },
		"short time":  func(o *event.ConsumerOptions) { o.Timeout = time.Microsecond },
		"soon silent": func(o *event.ConsumerOptions) { o.ClaimAfter = 6 * time.Second },
		"soon gone":   func(o *event.ConsumerOptions) { o.GroupTTL = 30 * time.Second },
	} {
		o := event.ConsumerOptions{Redis: b.client, Group: "g", Name: "c", Handle: fine, Failed: b.failed.add}
		spoil(&o)
		if _, err := event.NewConsumer(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
