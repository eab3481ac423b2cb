package event_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/event"
)

// TestHook goes through a service that is away, that refuses once, and that is well: the event arrives, each time under
// the same key.
func TestHook(t *testing.T) {
	t.Parallel()
	keys, posts := make(chan string, 10), atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Idempotency-Key")
		if posts.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	hook, err := event.NewHook("http://127.0.0.1:1/", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hook.Close)
	b := newBench(t, false, 1)
	b.relay(nil, "profile")
	c, _ := b.consumer("profile", "c", hook.Handle, func(o *event.ConsumerOptions) { o.Tries = 2 })
	b.boxes[0].commit("love")
	eventually(t, "several refused connections", func() bool { return c.Stats().Failed > 3 })
	if !b.failed.has(syscall.ECONNREFUSED) {
		t.Errorf("failures %v, want one with %v", b.failed.all(), syscall.ECONNREFUSED)
	}
	if _, err := hook.SetURL(server.URL); err != nil {
		t.Fatal(err)
	}
	b.drained()
	const want = `"shard0/1"`
	if first, second := <-keys, <-keys; first != want || second != want {
		t.Errorf("keys %s and %s, want %s", first, second, want)
	}
	if s := c.Stats(); s.Handled != 1 || s.Dead != 0 {
		t.Errorf("stats %+v, want one event handled", s)
	}
}

// TestHookPassesOver posts nothing about moves that are not a claim.
func TestHookPassesOver(t *testing.T) {
	t.Parallel()
	hook, err := event.NewHook("http://127.0.0.1:1/", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"USERNAME_LOCKED", "USERNAME_RELEASED", "USERNAME_AVAILABLE"} {
		if err := hook.Handle(t.Context(), event.Event{Type: kind}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := hook.Handle(t.Context(), event.Event{Type: event.NameClaimed}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("claim: %v, want %v", err, syscall.ECONNREFUSED)
	}
}
