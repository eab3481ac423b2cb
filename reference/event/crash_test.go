package event_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/event"
)

// consumerEnv makes the test binary a consumer that takes an event and never comes to an end with it.
const consumerEnv = "EVENT_TEST_REDIS"

func TestMain(m *testing.M) {
	if addr := os.Getenv(consumerEnv); addr != "" {
		os.Exit(consumeForEver(addr))
	}
	os.Exit(m.Run())
}

func consumeForEver(addr string) int {
	c, err := event.NewConsumer(event.ConsumerOptions{
		Redis: redis.NewClient(&redis.Options{Addr: addr}), Shards: []string{"shard0"}, Group: "g", Name: "victim",
		Handle: func(ctx context.Context, e event.Event) error {
			if e.Name == "fine" {
				return nil
			}
			fmt.Println(e.ID)
			<-ctx.Done()
			return ctx.Err()
		},
		Timeout: time.Minute, ClaimAfter: 2 * time.Minute, Failed: func(error) {},
	})
	if err != nil {
		return 1
	}
	c.Run(context.Background())
	return 0
}

// TestRedisKilled kills Redis with SIGKILL at random moments, with all its data, while events are committed, relayed and
// handled: in the end each group has handled each event, in order.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	const shards, all, kills = 2, 1200, 8
	b := newBench(t, true, shards)
	relay, _ := b.relay(func(o *event.RelayOptions) { o.Batch = 20 }, "audit", "profile")
	b.relay(func(o *event.RelayOptions) { o.Batch = 30 }, "audit", "profile")
	groups := map[string]*record{"audit": newRecord(), "profile": newRecord()}
	for group, r := range groups {
		for i := range 2 {
			b.consumer(group, "c"+strconv.Itoa(i), r.handler(fine), nil)
		}
	}
	committed := make(chan struct{})
	go func() {
		defer close(committed)
		for n := range all {
			b.boxes[n%shards].commit(fmt.Sprintf("n%d", n%7))
			relay.Wake(n % shards)
			if n%20 == 19 {
				<-time.After(25 * time.Millisecond)
			}
		}
	}()
	for range kills {
		<-time.After(rand.N(150 * time.Millisecond))
		b.server.Stop()
		<-time.After(rand.N(50 * time.Millisecond))
		if err := b.server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	<-committed
	for group, r := range groups {
		eventually(t, "all events in "+group, func() bool { return r.distinct() == all })
		r.checkOrder(t)
	}
	b.drained()
	var repeated int
	for _, r := range groups {
		for _, n := range r.times {
			repeated += n - 1
		}
	}
	t.Logf("%d of %d handlings were repetitions", repeated, 2*all+repeated)
}

// TestConsumerKilled kills the process of a consumer in the middle of an event: another one takes the event over, before
// the next.
func TestConsumerKilled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, genuine bool) {
		b := newBench(t, genuine, 1)
		b.relay(nil, "g")
		b.boxes[0].commit("fine")
		victim := exec.CommandContext(t.Context(), os.Args[0])
		victim.Env = append(os.Environ(), consumerEnv+"="+b.server.Addr())
		out, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		b.drained() // what it is done with is acknowledged, and will not come again
		for range 3 {
			b.boxes[0].commit("love")
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "2" {
			t.Fatalf("the victim is at event %q, error %v, want 2", line, err)
		}
		r := newRecord()
		const after = time.Second
		b.consumer("g", "heir", r.handler(fine), func(o *event.ConsumerOptions) {
			o.Timeout, o.ClaimAfter = 100*time.Millisecond, after
		})
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = victim.Wait() // killed
		eventually(t, "the rest", func() bool { return r.distinct() == 3 })
		r.checkOrder(t)
		if got := r.handled("shard0", 1); got != 0 {
			t.Errorf("what the victim had acknowledged was handled %d times more", got)
		}
		b.drained()
	})
}
