package guard_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/guard"
)

// clock is a clock that moves when it is told to.
type clock struct {
	nanos atomic.Int64
}

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// failures collects what checks could not decide.
type failures struct {
	mu   sync.Mutex
	list []string
}

func (f *failures) add(check string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fmt.Sprintf("%s: %v", check, err))
}

func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list)
}

// server is a Redis to test with.
type server struct {
	// client returns a new client, as another instance would have one.
	client func(t *testing.T) *redis.Client
}

// onEachRedis runs f against an embedded Redis and a real one.
func onEachRedis(t *testing.T, f func(t *testing.T, s server)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m := miniredis.RunT(t)
		f(t, clients(redis.Options{Addr: m.Addr()}))
	})
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		f(t, clients(redis.Options{Network: "unix", Addr: startRedis(t)}))
	})
}

func clients(o redis.Options) server {
	return server{client: func(t *testing.T) *redis.Client {
		t.Helper()
		o := o
		o.MaxRetries = -1
		c := redis.NewClient(&o)
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("close client: %v", err)
			}
		})
		return c
	}}
}

// startRedis starts a private redis-server and returns its socket.
func startRedis(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guard") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.CommandContext(context.Background(), "redis-server",
		"--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed: the error says so
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer func() { _ = c.Close() }()
	eventually(t, "redis-server answers", func() bool { return c.Ping(t.Context()).Err() == nil })
	return socket
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// newGate is patient unless told otherwise: the machine may be busy.
func newGate(t *testing.T, client guard.Redis, o guard.GateOptions) *guard.Gate {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	g, err := guard.NewGate(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newProof(t testing.TB, now func() time.Time) *guard.Proof {
	t.Helper()
	p, err := guard.NewProof(guard.ProofOptions{Secret: []byte("sixteen bytes or more"), Difficulty: 8, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newGuard(t testing.TB, o guard.Options) *guard.Guard {
	t.Helper()
	g, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func stat(t *testing.T, g *guard.Guard, check string) guard.Stats {
	t.Helper()
	for _, s := range g.Stats() {
		if s.Check == check {
			return s
		}
	}
	t.Fatalf("no statistics of check %q", check)
	return guard.Stats{}
}
