package webhook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestReady: ready is who could store a message now.
func TestReady(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	want := func(when string, ready bool) {
		t.Helper()
		if err := in.Ready(t.Context()); (err == nil) != ready {
			t.Errorf("%s: got %v, want ready %t", when, err, ready)
		}
	}
	want("before the start", false)
	start(t, in)
	want("at work", true)
	if _, err := in.store.write.ExecContext(t.Context(), `PRAGMA query_only = ON`); err != nil {
		t.Fatal(err)
	}
	want("with a store that takes nothing", false)
	if _, err := in.store.write.ExecContext(t.Context(), `PRAGMA query_only = OFF`); err != nil {
		t.Fatal(err)
	}
	want("mended", true)
	stop(t, in)
	if err := in.Ready(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("stopped: got %v, want ErrStopped", err)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	h := Guard([]string{"canary"}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for header, want := range map[string]int{"": 401, "Bearer wrong": 403, "Bearer canary": 204} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Header.Set("Authorization", header)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != want {
			t.Errorf("Authorization %q: got %d, want %d", header, rec.Code, want)
		}
	}
}
