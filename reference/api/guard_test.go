package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/guard"
	"github.com/regpath/diagnose/reference/local"
)

// TestGuard sends one address more than it may, on each path.
func TestGuard(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{Guard: local.GuardOptions{On: true, Strict: true}})
	limited := func(method, path, body string, allowed int) {
		t.Helper()
		began := time.Now()
		for i := 0; ; i++ {
			req, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			client := http.Client{Timeout: 20 * time.Second}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			described(t, method, p.URL+path, res.StatusCode)
			after, _ := strconv.Atoi(res.Header.Get("Retry-After"))
			// What takes long is allowed more: none of the limits refills faster than one a second.
			most := allowed + int(time.Since(began).Seconds()) + 1
			was := res.StatusCode == http.StatusTooManyRequests
			if was != (after >= 1) || was && i < allowed || !was && i >= most {
				t.Fatalf("%s %s, number %d = %d, Retry-After %d, want %d to %d allowed", method, path, i+1, res.StatusCode, after, allowed, most)
			}
			if was {
				return
			}
		}
	}
	limited(http.MethodGet, "/v1/check?name=some_one", "", 60)
	limited(http.MethodPost, "/v1/register", `{"name":"some_one"}`, 10)
	limited(http.MethodPost, "/v1/register/attempt", "", 30)
	_, metrics := send(t, http.MethodGet, p.URL+"/metrics", "", "")
	for _, want := range []string{
		`checker_guard_verdicts_total{check="check_address",outcome="limited"} 1`,
		`checker_http_requests_total{code="429",endpoint="attempt"} 1`,
		`checker_http_requests_total{code="429",endpoint="register"} 1`,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if doc := document(t, http.MethodGet, p.URL+"/debug/diagnose/errors", ""); doc["recorded"] != json.Number("0") {
		t.Errorf("errors = %v, want none: refusals are expected", doc)
	}
}

// TestGate registers without an attempt, with one, again with the same, and, when many come, with a challenge.
func TestGate(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{Guard: local.GuardOptions{On: true, Gate: true}})
	register := func(body map[string]string, want int) {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if code, got := send(t, http.MethodPost, p.URL+"/v1/register", "application/json", string(b)); code != want {
			t.Errorf("register %s = %d %s, want %d", b, code, got, want)
		}
	}
	begin := func() (a struct {
		Attempt   string
		Challenge *struct{ Kind, Token string }
	},
	) {
		t.Helper()
		code, b := send(t, http.MethodPost, p.URL+"/v1/register/attempt", "", "")
		if err := json.Unmarshal(b, &a); err != nil || code != http.StatusCreated || a.Attempt == "" {
			t.Fatalf("attempt = %d %s, %v", code, b, err)
		}
		return a
	}
	register(map[string]string{"name": "first"}, http.StatusForbidden)
	a := begin()
	register(map[string]string{"name": "first", "attempt": a.Attempt}, http.StatusCreated)
	register(map[string]string{"name": "second", "attempt": a.Attempt}, http.StatusForbidden)
	for range 1000 {
		if a = begin(); a.Challenge != nil {
			break
		}
	}
	if a.Challenge == nil {
		t.Fatal("nobody was challenged")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := guard.Solve(ctx, a.Challenge.Token)
	if err != nil {
		t.Fatal(err)
	}
	register(map[string]string{"name": "second", "attempt": a.Attempt, "token": a.Challenge.Token, "answer": answer}, http.StatusCreated)
}
