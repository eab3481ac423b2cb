package id_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/id"
	"github.com/regpath/diagnose/reference/local"
)

const ttl = 900 * time.Millisecond

func startRedis(t *testing.T) (*local.Redis, *redis.Client) {
	t.Helper()
	server, err := local.StartRedis(context.WithoutCancel(t.Context()), local.RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return server, client
}

// acquire takes a lease as soon as Redis is old enough.
func acquire(t *testing.T, client *redis.Client, o id.LeaseOptions) *id.Lease {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = ttl
	}
	var lease *id.Lease
	eventually(t, func() (err error) {
		lease, err = id.Acquire(t.Context(), client, o)
		return err
	})
	t.Cleanup(func() { _ = lease.Close(context.WithoutCancel(t.Context())) })
	return lease
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not in time: %v", err)
		}
	}
}

func leased(t *testing.T, lease *id.Lease) *id.Generator {
	t.Helper()
	g, err := id.New(lease, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLease(t *testing.T) {
	t.Parallel()
	server, client := startRedis(t)
	if _, err := id.Acquire(t.Context(), client, id.LeaseOptions{}); err == nil || !strings.Contains(err.Error(), "may have forgotten leases") {
		t.Errorf("Acquire from a young Redis = %v, want an error", err)
	}
	acquire(t, client, id.LeaseOptions{}) // Redis is old enough from here on
	for name, check := range map[string]func(*testing.T, *redis.Client){
		"Numbers": checkNumbers, "Stolen": checkStolen, "Floor": checkFloor, "Ahead": checkAhead, "Full": checkFull,
	} {
		t.Run(name, func(t *testing.T) { check(t, client) })
	}
	t.Run("Outage", func(t *testing.T) { checkOutage(t, server, client) })
}

// checkNumbers lets thirty instances start at the same time: no two hold one number, and no id is given out twice.
func checkNumbers(t *testing.T, client *redis.Client) {
	var holders, seen sync.Map
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			lease, err := id.Acquire(t.Context(), client, id.LeaseOptions{TTL: ttl, Prefix: "numbers:"})
			if err != nil {
				t.Error(err)
				return
			}
			if _, twice := holders.LoadOrStore(lease.Number(), true); twice {
				t.Errorf("number %d is held twice", lease.Number())
			}
			g, err := id.New(lease, time.Now)
			if err != nil {
				t.Error(err)
				return
			}
			for range 100 {
				if n, err := g.Next(t.Context()); err != nil {
					t.Error(err)
				} else if _, twice := seen.LoadOrStore(n, true); twice {
					t.Errorf("id %d was given out twice", n)
				}
			}
			holders.Delete(lease.Number()) // whoever starts late may have it next
			if err := lease.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if n, err := g.Next(t.Context()); !errors.Is(err, id.ErrLease) {
				t.Errorf("Next after Close = %d, %v, want ErrLease", n, err)
			}
		})
	}
	all.Wait()
	if keys, err := client.Keys(t.Context(), "numbers:*:holder").Result(); err != nil || len(keys) > 0 {
		t.Errorf("after all were closed these are held: %v, %v", keys, err)
	}
}

// checkStolen gives a number to somebody else behind the holder's back.
func checkStolen(t *testing.T, client *redis.Client) {
	var failures atomic.Int64
	lease := acquire(t, client, id.LeaseOptions{Prefix: "stolen:", Failed: func(err error) {
		if errors.Is(err, id.ErrLease) {
			failures.Add(1)
		}
	}})
	g := leased(t, lease)
	if _, err := g.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := "stolen:{" + strconv.Itoa(lease.Number()) + "}:holder"
	if err := client.Set(t.Context(), key, "somebody else", 0).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, err := g.Next(t.Context()); !errors.Is(err, id.ErrLease) || failures.Load() == 0 {
			return errors.New("ids go on")
		}
		return nil
	})
	if err := lease.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if holder, err := client.Get(t.Context(), key).Result(); holder != "somebody else" || err != nil {
		t.Errorf("the number is held by %q, %v after the loser's Close", holder, err)
	}
}

// checkFloor lets a number's next holder have a clock that is behind.
func checkFloor(t *testing.T, client *redis.Client) {
	o := id.LeaseOptions{Prefix: "floor:"}
	var last int64
	number := 0
	for i := range 5 {
		for n := range id.Machines { // all numbers but one are held by others
			if i == 0 || n == number {
				continue
			}
			if err := client.Set(t.Context(), "floor:{"+strconv.Itoa(n)+"}:holder", "other", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
		behind := time.Duration(i) * time.Second
		o.Now = func() time.Time { return time.Now().Add(-behind) }
		lease := acquire(t, client, o)
		number = lease.Number()
		g, err := id.New(lease, o.Now)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			n, err := g.Next(t.Context())
			if err != nil || n <= last {
				t.Fatalf("holder %d, %v behind: id %d, %v, after %d", i, behind, n, err, last)
			}
			last = n
		}
		if err := lease.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// checkAhead lets the clock jump beyond what is reserved: ids wait for the next renewal.
func checkAhead(t *testing.T, client *redis.Client) {
	c := &clock{}
	lease := acquire(t, client, id.LeaseOptions{Prefix: "ahead:", Now: c.Now})
	g, err := id.New(lease, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	first, err := g.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.jump(time.Hour)
	if n, err := g.Next(t.Context()); !errors.Is(err, id.ErrLease) {
		t.Errorf("an hour ahead of the reservation: Next = %d, %v, want ErrLease", n, err)
	}
	var second int64
	eventually(t, func() (err error) {
		second, err = g.Next(t.Context())
		return err
	})
	if second <= first {
		t.Errorf("id %d follows %d", second, first)
	}
}

func checkFull(t *testing.T, client *redis.Client) {
	for n := range id.Machines {
		if err := client.Set(t.Context(), "full:{"+strconv.Itoa(n)+"}:holder", "other", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := id.Acquire(t.Context(), client, id.LeaseOptions{Prefix: "full:", TTL: ttl})
	if err == nil || !strings.Contains(err.Error(), "all 512 are held") {
		t.Errorf("Acquire = %v, want that all are held", err)
	}
}

// checkOutage stops Redis: ids go on while the lease lasts, then end, and go on when Redis is back and old enough.
func checkOutage(t *testing.T, server *local.Redis, client *redis.Client) {
	lease := acquire(t, client, id.LeaseOptions{Prefix: "outage:"})
	g := leased(t, lease)
	last := int64(0)
	next := func() error {
		n, err := g.Next(t.Context())
		if err == nil && n <= last {
			t.Fatalf("id %d follows %d", n, last)
		}
		last = max(last, n)
		return err
	}
	if err := next(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	stopped := time.Now()
	if err := next(); err != nil {
		t.Errorf("ids end with Redis: %v", err)
	}
	eventually(t, func() error {
		if err := next(); !errors.Is(err, id.ErrLease) {
			return errors.New("ids go on")
		}
		return nil
	})
	if lasted := time.Since(stopped); lasted >= ttl+500*time.Millisecond {
		t.Errorf("ids went on for %v without Redis, the lease lasts %v", lasted, ttl)
	}
	eventually(t, func() error { // a renewal may have begun in time and still be under way
		if time.Since(stopped) < 2*ttl {
			return errors.New("too early")
		}
		return nil
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := time.Now()
	eventually(t, next)
	if took := time.Since(restarted); took < ttl/2 {
		t.Errorf("a Redis %v old, which may have forgotten the leases of %v, has renewed one that had ended", took, ttl)
	}
}
