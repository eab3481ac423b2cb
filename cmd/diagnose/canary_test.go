package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify/slack/slacktest"
)

// canaries are secrets of every kind, each told apart by its name. None of them
// is a substring of another.
func canaries(names ...string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[name] = "cnry" + name + "7Qz"
	}
	return all
}

// transcript is what the agent writes, which tests may read meanwhile.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// dead is an address where connections are cut at once, so that every client
// fails with an error of its own making.
func dead(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close() // that is all it does
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return l.Addr().String()
}

// TestNoSecretAnywhere gives the agent secrets of every kind, back ends and sinks
// that fail in their own ways, and a whole incident; then it looks for the
// secrets in all that came out: logs, messages, metrics, what the endpoints
// answer, what the commands print, and the bytes of the store.
func TestNoSecretAnywhere(t *testing.T) {
	secrets := canaries("hook", "checker", "redis", "dsn", "dsnuser", "slackdead", "slackurl", "slackrefused")
	cut := dead(t)
	// The service answers with errors, which reports quote.
	target := careless(t)
	chat := slacktest.Start(t)
	gone := strings.Replace(chat.WebhookURL(), "fakeWebhookSecret", secrets["slackrefused"], 1)
	config := write(t, "diagnose.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
store: %q
webhook: {tokens: [%s]}
targets:
  - name: registration
    checker: {url: %q, token: %s}
    redis: {address: %q, username: ops, password: %s}
    shards:
      - {name: shard0, dsn: "postgres://%s:%s@%s/db?sslmode=disable"}
      - {name: shard1, dsn: "host=127.0.0.1 port=1 user=u password=%s dbname=d"}
notify:
  - stdout: {}
  - slack: {name: good, token: %s, channel: %s, api_url: %q}
  - slack: {name: cut, token: %s, channel: C1, api_url: "http://%s/api/"}
  - slack: {name: refused, token: %s, channel: C1, api_url: %q}
  - slack_webhook: {name: hook-cut, url: "http://%s/services/%s"}
  - slack_webhook: {name: hook-gone, url: %q}
`, filepath.Join(t.TempDir(), "diagnose.db"), secrets["hook"], target, secrets["checker"], cut, secrets["redis"],
		secrets["dsnuser"], secrets["dsn"], cut, secrets["dsn"],
		slacktest.Token, slacktest.ChannelID, chat.APIURL(), secrets["slackdead"], cut, secrets["slackrefused"], chat.APIURL(),
		cut, secrets["slackurl"], gone))
	var out, logged transcript
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"serve", "--config", config}, streams{out: &out, err: &logged}) }()
	t.Cleanup(stop)
	hook := ""
	eventually(t, "the agent is ready", 30*time.Second, func() bool {
		_, rest, ok := strings.Cut(logged.String(), "webhook=")
		hook, _, _ = strings.Cut(rest, " ")
		return ok
	})
	if !strings.HasPrefix(hook, "http://127.0.0.1:") {
		t.Fatalf("the log does not say where the agent listens: %s", &logged)
	}
	var seen bytes.Buffer // all that comes out besides
	post := func(token, body string) {
		t.Helper()
		seen.WriteString(ask(t, http.MethodPost, hook, token, body))
	}
	post("wrong-"+secrets["hook"], alertBody(t))
	post(secrets["hook"], "{"+secrets["hook"])
	post(secrets["hook"], alertBody(t))
	undelivered := func() string {
		_, stdout, stderr := diagnose(t, "incidents", "--config", config, "--undelivered")
		return stdout + stderr
	}
	eventually(t, "the good sink is done and every other one has failed", time.Minute, func() bool {
		list := undelivered()
		return !strings.Contains(list, "told to good") && strings.Count(list, ": ") >= 4+4 && strings.Contains(out.String(), "Cost of this run")
	})
	for _, name := range []string{"cut", "refused", "hook-cut", "hook-gone"} {
		if !strings.Contains(undelivered(), "told to "+name+" since") {
			t.Errorf("%s is not among the undelivered:\n%s", name, undelivered())
		}
	}
	base := strings.TrimSuffix(hook, webhookPath)
	for _, path := range []string{"/metrics", "/-/ready", "/-/healthy", "/debug/", "/debug/pprof/cmdline", "/nowhere", webhookPath} {
		seen.WriteString(ask(t, http.MethodGet, base+path, "", ""))
	}
	id, _, _ := strings.Cut(undelivered(), " ")
	for _, args := range [][]string{
		{"incidents", "--config", config, id},
		{"incidents", "--config", config, "--output", "json"},
		{"incidents", "--config", config, id, "--output", "json"},
		{"run", "--config", config, "-v", "--notify"},
	} {
		_, stdout, stderr := diagnose(t, args...)
		seen.WriteString(stdout + stderr)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("the agent ended with exit code %d:\n%s", code, &logged)
	}
	for _, m := range chat.Messages() {
		seen.WriteString(m.Text + string(m.Blocks) + string(m.Metadata))
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(storeOf(t, config)), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no store: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen.Write(b)
	}
	for where, text := range map[string]string{"logs": logged.String(), "stdout": out.String(), "the rest": seen.String()} {
		if text == "" {
			t.Errorf("%s: nothing to look at", where)
		}
		for name, s := range secrets {
			if i := strings.Index(text, s); i >= 0 {
				t.Errorf("%s: holds the secret %q: …%q…", where, name, text[max(0, i-120):min(len(text), i+120)])
			}
		}
	}
}

// storeOf is the store that the configuration names.
func storeOf(t *testing.T, config string) string {
	t.Helper()
	c, err := loadConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c.Store.Reveal()
}

// ask makes a request and returns the answer, headers and all.
func ask(t *testing.T, method, url, token, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %v\n%s\n", resp.Status, resp.Header, b)
}

// careless is a service that answers every request with an error that quotes it,
// credentials included.
func careless(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprintf("cannot serve %s to %v", r.URL, r.Header), http.StatusInternalServerError)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
