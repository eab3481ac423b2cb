package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/local"
)

// TestRedrive gives an event up, which a service refuses five times, and
// handles it when the service is well.
func TestRedrive(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	var told atomic.Int64
	profiles := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		told.Add(1)
	}))
	t.Cleanup(profiles.Close)
	p := start(t, local.Options{Shards: 1, FollowUpURL: profiles.URL})
	if code, body := send(t, http.MethodPost, p.URL+"/v1/register", "application/json", `{"name":"unlucky"}`); code != http.StatusCreated {
		t.Fatalf("register = %d %s", code, body)
	}
	seen := func(metric string) bool {
		_, body := send(t, http.MethodGet, p.URL+"/metrics", "", "")
		return strings.Contains(string(body), metric+"\n")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	eventually := func(metric string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !seen(metric); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("never seen: %s", metric)
			}
		}
	}
	redrive := func(group string, wantCode int, want string) {
		t.Helper()
		code, body := send(t, http.MethodPost, p.URL+"/debug/events/"+group+"/redrive", "", "")
		if code != wantCode || strings.TrimSpace(string(body)) != want {
			t.Errorf("redrive of %s = %d %s, want %d %s", group, code, body, wantCode, want)
		}
	}
	eventually(`checker_events_dead_total{group="profile"} 1`)
	eventually(`checker_events_dead_letters{shard="shard0"} 1`)
	redrive("welcome", http.StatusOK, `{"group":"welcome","handled":0,"left":0}`)
	redrive("profile", http.StatusOK, `{"group":"profile","handled":0,"left":1}`)
	well.Store(true)
	redrive("profile", http.StatusOK, `{"group":"profile","handled":1,"left":0}`)
	redrive("profile", http.StatusOK, `{"group":"profile","handled":0,"left":0}`)
	redrive("nobody", http.StatusNotFound, `{"error":"this instance has no consumer of that group"}`)
	eventually(`checker_events_dead_letters{shard="shard0"} 0`)
	if got := told.Load(); got != 1 {
		t.Errorf("the service was told %d times, want once", got)
	}
}
