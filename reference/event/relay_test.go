package event_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/event"
)

func fine(context.Context, event.Event) error { return nil }

// TestDelivery brings events of several shards to several groups, over several relays and several consumers of each
// group: each group handles each event, never two of a shard at a time, in the order of each name.
func TestDelivery(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		const shards, each = 3, 100
		b := newBench(t, genuine, shards)
		relay, _ := b.relay(func(o *event.RelayOptions) { o.Batch = 7 }, "audit", "profile")
		b.relay(func(o *event.RelayOptions) { o.Batch = 11 }, "audit", "profile")
		groups := map[string]*record{"audit": newRecord(), "profile": newRecord()}
		for group, r := range groups {
			for i := range 3 {
				b.consumer(group, "c"+strconv.Itoa(i), r.handler(fine), nil)
			}
		}
		var commits sync.WaitGroup
		for i, box := range b.boxes {
			commits.Go(func() {
				for n := range each {
					box.commit(fmt.Sprintf("name%d", n%5))
					relay.Wake(i)
				}
			})
		}
		commits.Wait()
		b.drained()
		for group, r := range groups {
			if got := r.distinct(); got != shards*each {
				t.Errorf("%s handled %d events, want %d", group, got, shards*each)
			}
			if r.overlap {
				t.Errorf("%s handled two events of one shard at a time", group)
			}
			r.checkOrder(t)
		}
		if errs := b.failed.all(); len(errs) > 0 {
			t.Errorf("failures: %v", errs)
		}
	})
}

// TestEvent sees that an event arrives as it was committed, with its shard.
func TestEvent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g")
		arrived := make(chan event.Event, 1)
		b.consumer("g", "c", func(_ context.Context, e event.Event) error { arrived <- e; return nil }, nil)
		id := b.boxes[0].commit("爱\u2028\x00\"")
		want := b.boxes[0].rows[id]
		want.Shard = "shard0"
		if got := <-arrived; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// TestLateCommit commits a smaller id after a larger one was acknowledged: it is not passed over.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 1)
	b.relay(nil, "g")
	r := newRecord()
	b.consumer("g", "c", r.handler(fine), nil)
	b.boxes[0].last = 41
	b.boxes[0].commit("b")
	b.drained()
	b.boxes[0].commitLate(7, "a")
	eventually(t, "the late event", func() bool { return r.handled("shard0", 7) == 1 })
	b.drained()
}

// TestWake sees that a commit is relayed at once and not at the next tick.
func TestWake(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 1)
	relay, _ := b.relay(func(o *event.RelayOptions) { o.Tick = time.Hour }, "g")
	r := newRecord()
	b.consumer("g", "c", r.handler(fine), nil)
	eventually(t, "the first look", func() bool { return b.client.Exists(t.Context(), "events:{shard0}").Val() == 1 })
	b.boxes[0].commit("love")
	relay.Wake(0)
	eventually(t, "the event", func() bool { return r.distinct() == 1 })
}

// TestRedisDown lets events wait in the outbox, tells how many, and spaces out its tries however often it is woken.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		relay, _ := b.relay(nil, "g")
		r := newRecord()
		b.consumer("g", "c", r.handler(fine), nil)
		b.boxes[0].commit("before")
		b.drained()
		b.server.Stop()
		began := time.Now()
		for n := range 150 {
			b.boxes[0].commit(fmt.Sprintf("n%d", n))
			relay.Wake(0)
		}
		eventually(t, "the lag", func() bool {
			s := relay.Stats()[0]
			return s.Unpublished == 150 && !s.More && !s.Oldest.Before(began.Add(-time.Second).Truncate(0)) && s.Failures > 2
		})
		if !b.failed.has(event.ErrRedis) {
			t.Errorf("failures %v, want one with %v", b.failed.all(), event.ErrRedis)
		}
		most := int(time.Since(began)/(25*time.Millisecond)) + 20
		if got := len(b.failed.all()); got > most {
			t.Errorf("%d failed tries in %v, want at most %d", got, time.Since(began), most)
		}
		if err := b.server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all events", func() bool { return r.distinct() == 151 })
		b.drained()
		eventually(t, "no lag", func() bool { s := relay.Stats()[0]; return s.Unpublished == 0 && s.Oldest.IsZero() && s.InStream == 0 })
	})
}

// TestOutboxDown keeps a shard that fails from stopping the others.
func TestOutboxDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 2)
	cause := errors.New("shard is gone")
	b.boxes[0].setDown(cause)
	b.relay(nil, "g")
	r := newRecord()
	b.consumer("g", "c", r.handler(fine), nil)
	b.boxes[0].commit("a")
	b.boxes[1].commit("b")
	eventually(t, "the other shard's event", func() bool { return r.handled("shard1", 1) == 1 })
	eventually(t, "the failure", func() bool { return b.failed.has(event.ErrOutbox) && b.failed.has(cause) })
	b.boxes[0].setDown(nil)
	eventually(t, "the event that waited", func() bool { return r.handled("shard0", 1) == 1 })
}

// TestLoss takes from Redis what a group has not acknowledged, in all the ways there are, and sees it come again.
func TestLoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string][]any{
		"everything": {"FLUSHALL"},
		"stream":     {"DEL", "events:{shard0}"},
		"index":      {"DEL", "events:{shard0}:in"},
		"entries":    {"XTRIM", "events:{shard0}", "MAXLEN", "2"},
		"all":        {"XTRIM", "events:{shard0}", "MAXLEN", "0"},
		"group":      {"XGROUP", "DESTROY", "events:{shard0}", "slow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, genuine bool) {
				b := newBench(t, genuine, 1)
				relay, _ := b.relay(nil, "fast", "slow")
				fast, slow, gate := newRecord(), newRecord(), make(chan struct{})
				b.consumer("fast", "c", fast.handler(fine), nil)
				for n := range 20 {
					b.boxes[0].commit(fmt.Sprintf("n%d", n%3))
				}
				b.consumer("slow", "c", slow.handler(func(ctx context.Context, _ event.Event) error {
					select {
					case <-gate:
					case <-ctx.Done():
					}
					return ctx.Err()
				}), func(o *event.ConsumerOptions) { o.Timeout, o.ClaimAfter = 40*time.Second, time.Minute })
				eventually(t, "all events in the stream", func() bool { return fast.distinct() == 20 && relay.Stats()[0].InStream == 20 })
				if err := b.client.Do(t.Context(), lose...).Err(); err != nil {
					t.Fatal(err)
				}
				close(gate)
				eventually(t, "all events", func() bool { return slow.distinct() == 20 })
				if name != "entries" { // whose rest may be read before the loss is seen
					slow.checkOrder(t)
				}
				fast.checkOrder(t)
				b.drained()
			})
		})
	}
}

// TestSlowGroup keeps what a group has not read, however far the others are, up to the window; what is beyond waits in
// the outbox and comes later.
func TestSlowGroup(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		const window, batch, all = 50, 10, 200
		b := newBench(t, genuine, 1)
		relay, _ := b.relay(func(o *event.RelayOptions) { o.Window, o.Batch = window, batch }, "fast", "slow")
		fast, slow := newRecord(), newRecord()
		b.consumer("fast", "c", fast.handler(fine), nil)
		for n := range all {
			b.boxes[0].commit(fmt.Sprintf("n%d", n%3))
		}
		eventually(t, "a full window", func() bool { return fast.distinct() == window })
		eventually(t, "the lag", func() bool {
			s := relay.Stats()[0]
			if len(s.Groups) != 2 {
				return false
			}
			behind := map[string]time.Duration{}
			for _, g := range s.Groups {
				behind[g.Name] = g.Behind
			}
			return s.InStream == window && s.Unpublished == window && s.More && behind["slow"] > 100*time.Millisecond && behind["fast"] == 0
		})
		if n := b.client.XLen(t.Context(), "events:{shard0}").Val(); n != window {
			t.Errorf("%d events in the stream, want %d", n, window)
		}
		b.consumer("slow", "c", slow.handler(fine), nil)
		eventually(t, "all events in both groups", func() bool { return fast.distinct() == all && slow.distinct() == all })
		slow.checkOrder(t)
		fast.checkOrder(t)
		b.drained()
	})
}

// TestGuestGroup lets a group that the relay does not know hold events as long as its consumer lives, and not for ever.
func TestGuestGroup(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g")
		b.consumer("g", "c", fine, nil)
		guest := newRecord()
		short := func(o *event.ConsumerOptions) {
			o.Timeout, o.MaxBackoff, o.ClaimAfter, o.GroupTTL = 50*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond, time.Second
		}
		consumer, leave := b.consumer("bloom-1", "c", guest.handler(fine), short)
		if err := consumer.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.boxes[0].commit("love")
		eventually(t, "the guest's event", func() bool { return guest.distinct() == 1 })
		leave()
		b.boxes[0].commit("baby")
		b.drained()
		groups, err := b.client.XInfoGroups(t.Context(), "events:{shard0}").Result()
		if err != nil || len(groups) != 1 || groups[0].Name != "g" {
			t.Errorf("groups %v, error %v, want g alone", groups, err)
		}
	})
}

// TestMissed tells a consumer that was cut off for long that events may have passed it by, and one that was not, not.
func TestMissed(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 1)
	b.relay(nil, "g")
	missed := map[string]chan struct{}{"long": make(chan struct{}, 1), "short": make(chan struct{}, 1)}
	r := newRecord()
	for group, ttl := range map[string]time.Duration{"long": 300 * time.Millisecond, "short": time.Hour} {
		b.consumer(group, "c", r.handler(fine), func(o *event.ConsumerOptions) {
			o.Timeout, o.MaxBackoff, o.ClaimAfter, o.GroupTTL = 50*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond, ttl
			o.Missed = func() { missed[group] <- struct{}{} }
		})
	}
	b.consumer("g", "c", r.handler(fine), nil)
	eventually(t, "all groups", func() bool { return len(b.client.XInfoGroups(t.Context(), "events:{shard0}").Val()) == 3 })
	b.server.Stop()
	began := time.Now()
	eventually(t, "a long time", func() bool { return time.Since(began) > time.Second })
	if err := b.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-missed["long"]
	b.boxes[0].commit("love")
	b.drained()
	select {
	case <-missed["short"]:
		t.Error("a consumer that was away for a moment is told that it missed events")
	default:
	}
}

// TestPurge deletes published events after their retention.
func TestPurge(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 1)
	for range 30 {
		b.boxes[0].commitLate(b.boxes[0].last+1, "old")
		b.boxes[0].last++
		b.boxes[0].published[b.boxes[0].last] = time.Now().Add(-2 * time.Hour)
	}
	b.boxes[0].commitLate(31, "young")
	b.boxes[0].published[31] = time.Now()
	b.relay(func(o *event.RelayOptions) { o.Retention, o.Batch = time.Hour, 7 }, "g")
	eventually(t, "only what is young", func() bool {
		b.boxes[0].mu.Lock()
		defer b.boxes[0].mu.Unlock()
		_, young := b.boxes[0].rows[31]
		return len(b.boxes[0].rows) == 1 && young
	})
}

func TestRelayOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, 1)
	for name, spoil := range map[string]func(*event.RelayOptions){
		"no redis":      func(o *event.RelayOptions) { o.Redis = nil },
		"no groups":     func(o *event.RelayOptions) { o.Groups = nil },
		"no Failed":     func(o *event.RelayOptions) { o.Failed = nil },
		"negative tick": func(o *event.RelayOptions) { o.Tick = -1 },
		"bad window":    func(o *event.RelayOptions) { o.Window = -1 },
		"twice":         func(o *event.RelayOptions) { o.Sources = append(o.Sources, o.Sources[0]) },
		"no name":       func(o *event.RelayOptions) { o.Sources = []event.Source{{Outbox: b.boxes[0]}} },
		"no outbox":     func(o *event.RelayOptions) { o.Sources = []event.Source{{Name: "x"}} },
	} {
		o := event.RelayOptions{Redis: b.client, Sources: b.sources, Groups: []string{"g"}, Failed: b.failed.add}
		spoil(&o)
		if _, err := event.NewRelay(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
