package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asks makes a request with a bearer token and returns status and body.
func asks(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(b)
}

// TestReload: a new configuration is in force as a whole, or not at all.
func TestReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "diagnose.yml")
	put := func(token, rest string) {
		t.Helper()
		text := "listen: 127.0.0.1:0\nstore: " + path + ".db\nwebhook: {tokens: [" + token + "]}\nnotify: [{stdout: {}}]\n" + rest
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first = "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}}]\n"
	const second = "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}}, {name: b, checker: {url: \"http://127.0.0.1:2\"}}]\nroutes: [{matchers: ['x=\"y\"'], target: b}]\n"
	put("token-1", first)
	load := func() (*config, error) { return loadConfig(path) }
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	sinks, err := newSinks(c.Notify, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(t.Context(), c, sinks, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	a.load = load
	ctx, cancel := context.WithCancel(context.Background())
	a.heedSignals(ctx)
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- a.run(ctx, func(at string) { address <- at }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	url := "http://" + <-address
	want := func(what string, status int, method, path, token string, parts ...string) {
		t.Helper()
		code, body := asks(t, method, url+path, token, `{"alerts":[]}`)
		if code != status {
			t.Errorf("%s: got %d %s, want %d", what, code, body, status)
		}
		contains(t, what, body, parts...)
	}
	want("ready", 200, http.MethodGet, "/-/ready", "")
	want("reload without a token", 401, http.MethodPost, "/-/reload", "")
	want("reload with a wrong token", 403, http.MethodPost, "/-/reload", "token-2")
	kept := a.routing.Load().targets["a"]

	put("token-2", "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}}]\nroutes: [{matchers: ['x=~\"(\"']}]\n")
	want("a bad file", 500, http.MethodPost, "/-/reload", "token-1", "routes[0].matchers[0]", "old configuration stays")
	put("token-2", first+"listne: x\n")
	want("an unknown field", 500, http.MethodPost, "/-/reload", "token-1", `unknown field "listne"`)
	put("token-2", strings.Replace(first, "targets", "playbook: nosuch\ntargets", 1))
	want("an unknown playbook", 500, http.MethodPost, "/-/reload", "token-1", `unknown playbook "nosuch"`)
	put("token-2", first+"notify: [{stdout: {}}, {slack_webhook: {url: \"http://h/x\"}}]\n")
	want("a field given twice", 500, http.MethodPost, "/-/reload", "token-1", `"notify" is given twice`)
	want("the old token after the refusals", 200, http.MethodPost, webhookPath, "token-1")
	want("the new token after the refusals", 403, http.MethodPost, webhookPath, "token-2")
	want("metrics after the refusals", 200, http.MethodGet, "/metrics", "", "diagnose_config_last_reload_successful 0")

	put("token-2", second)
	want("a good file", 200, http.MethodPost, "/-/reload", "token-1")
	want("the old token", 403, http.MethodPost, webhookPath, "token-1")
	want("the new token", 200, http.MethodPost, webhookPath, "token-2")
	want("metrics", 200, http.MethodGet, "/metrics", "", "diagnose_config_last_reload_successful 1")
	r := a.routing.Load()
	if r.targets["a"] != kept || r.targets["b"] == nil || len(r.routes) != 2 {
		t.Errorf("got targets %v and %d routes, want a with its connections, b, and 2 routes", r.targets, len(r.routes))
	}

	put("token-3", second)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "SIGHUP has put the third token in force", time.Minute, func() bool {
		code, _ := asks(t, http.MethodPost, url+webhookPath, "token-3", `{"alerts":[]}`)
		return code == http.StatusOK
	})
	if err := os.WriteFile(path, []byte("listen: 127.0.0.1:9\nstore: elsewhere.db\nwebhook: {tokens: [x]}\nnotify: [{stdout: {}}]\n"+first), 0o600); err != nil {
		t.Fatal(err)
	}
	want("what takes a restart", 500, http.MethodPost, "/-/reload", "token-3", "listen, store changed: that takes a restart")
}
