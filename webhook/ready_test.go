package webhook

import (
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

// TestReady: ready is who could store a message now.
func TestReady(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	in := openInboxAt(t, path, Options{})
	want := func(when string, ready bool) {
		t.Helper()
		if err := in.Ready(t.Context()); (err == nil) != ready {
			t.Errorf("%s: got %v, want ready %t", when, err, ready)
		}
	}
	want("before the start", false)
	start(t, in)
	want("at work", true)
	other, err := sql.Open("sqlite", sqliteDSN(path, "_txlock=immediate", "_pragma=busy_timeout(10000)"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	lock, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want("with a store that somebody else has locked", false)
	if err := lock.Rollback(); err != nil {
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
