package event_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/event"
)

// lost collects what was reported lost.
type lost struct {
	mu   sync.Mutex
	errs []error
}

func (l *lost) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func start(t *testing.T, o event.Options) *event.FollowUps {
	t.Helper()
	f, err := event.NewFollowUps(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestDelivered(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("request %s, content type %q, error %v", r.Method, r.Header.Get("Content-Type"), err)
		}
		bodies <- string(body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	var l lost
	f := start(t, event.Options{URL: server.URL, Failed: l.add})
	f.Notify(event.Claimed{Name: "love", UserID: 1 << 60, At: time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)})
	f.Close() // delivers what is queued
	var got map[string]any
	if err := json.Unmarshal([]byte(<-bodies), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"event": "USERNAME_CLAIMED", "name": "love", "user_id": "1152921504606846976", "at": "2026-11-30T16:00:00Z"} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
	if len(l.errs) > 0 {
		t.Errorf("lost: %v", l.errs)
	}
	f.Notify(event.Claimed{Name: "late"})
	if len(l.errs) != 1 || !errors.Is(l.errs[0], event.ErrClosed) {
		t.Errorf("after Close lost = %v, want %v", l.errs, event.ErrClosed)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	dead, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + dead.Addr().String() + "/hook?token=s3cret"
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	angry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(angry.Close)
	check := func(url, want string, is error) {
		t.Helper()
		var l lost
		f := start(t, event.Options{URL: url, Failed: l.add})
		f.Notify(event.Claimed{Name: "love"})
		f.Close()
		if len(l.errs) != 1 || !strings.Contains(l.errs[0].Error(), want) || (is != nil && !errors.Is(l.errs[0], is)) {
			t.Fatalf("%s: lost = %v, want one error with %q", url, l.errs, want)
		}
		if strings.Contains(l.errs[0].Error(), "s3cret") {
			t.Errorf("the error tells the secret: %v", l.errs[0])
		}
	}
	check(refused, "connection refused", syscall.ECONNREFUSED)
	check(angry.URL, "status 502", nil)
}

// TestQueueFull blocks the only worker: registrations go on, and what does not
// fit is reported.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-release
	}))
	t.Cleanup(server.Close)
	var l lost
	f := start(t, event.Options{URL: server.URL, Workers: 1, Queue: 2, Timeout: time.Minute, Failed: l.add})
	f.Notify(event.Claimed{Name: "one"})
	<-entered
	for _, n := range []string{"two", "three", "four", "five"} {
		f.Notify(event.Claimed{Name: n})
	}
	l.mu.Lock()
	if len(l.errs) != 2 || !errors.Is(l.errs[0], event.ErrQueueFull) {
		t.Errorf("lost = %v, want twice %v", l.errs, event.ErrQueueFull)
	}
	l.mu.Unlock()
	close(release)
}

func TestSetURL(t *testing.T) {
	t.Parallel()
	var l lost
	f := start(t, event.Options{URL: "http://127.0.0.1:1/a", Failed: l.add})
	if from, err := f.SetURL("https://example.com/b"); err != nil || from != "http://127.0.0.1:1/a" {
		t.Errorf("SetURL = %q, %v, want the URL before", from, err)
	}
	for _, bad := range []string{"ftp://x/", "http://", "profiles", "http://user:pw@host/", "http://[::1"} {
		if _, err := f.SetURL(bad); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("SetURL(%q) = %v, want an error without the URL", bad, err)
		}
	}
	if from, err := f.SetURL(""); err != nil || from != "https://example.com/b" {
		t.Errorf("SetURL = %q, %v, want the last good URL", from, err)
	}
	f.Notify(event.Claimed{Name: "nobody"}) // off: neither sent nor lost
	f.Close()
	if len(l.errs) > 0 {
		t.Errorf("lost: %v", l.errs)
	}
	if _, err := event.NewFollowUps(event.Options{URL: "x", Failed: l.add}); err == nil {
		t.Error("NewFollowUps with a bad URL succeeded")
	}
	if _, err := event.NewFollowUps(event.Options{}); err == nil {
		t.Error("NewFollowUps without Failed succeeded")
	}
}
