package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/webhook"
)

// TestSharedStore: two agents on one Postgres hear of the same alert; it is one
// message, and nobody is told the store's password.
func TestSharedStore(t *testing.T) {
	postgres, err := local.StartPostgres(t.Context(), local.PostgresOptions{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	target := httptest.NewServer(http.NotFoundHandler())
	chat := slacktest.Start(t)
	url := write(t, "store.url", strings.Replace(postgres.DSN(0), "postgres@", "postgres:"+canary+"@", 1))
	config := write(t, "diagnose.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
store: {file: %q}
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
notify: [{slack: {token: %s, channel: %s, api_url: %q}}]
`, url, canary, target.URL, slacktest.Token, slacktest.ChannelID, chat.APIURL()))
	t.Run("agents", func(t *testing.T) { // which end before their Postgres
		for range 2 {
			if got := postAlert(t, serveHere(t, config)); got != http.StatusOK {
				t.Fatalf("post: got status %d, want 200", got)
			}
		}
		list := func() string {
			code, stdout, stderr := diagnose(t, "incidents", "--config", config)
			if code != 0 || strings.Contains(stdout+stderr, canary) {
				t.Fatalf("incidents: got exit code %d and %q, %q, want 0 and no password", code, stdout, stderr)
			}
			return stdout
		}
		eventually(t, "the report is there", time.Minute, func() bool {
			return len(chat.Roots()) > 0 && strings.Contains(chat.Roots()[0].FirstLine(), "Cannot tell") && !strings.Contains(list(), "being worked on")
		})
		if got := strings.Count(list(), "RegistrationPathSick"); got != 1 || len(chat.Roots()) != 1 {
			t.Errorf("got %d incidents and %d messages, want one of each: %s", got, len(chat.Roots()), list())
		}
	})
	target.Close()
	if err := postgres.Close(); err != nil {
		t.Error(err)
	}
	code, stdout, stderr := diagnose(t, "incidents", "--config", config)
	if code == 0 || strings.Contains(stdout+stderr, canary) || !strings.Contains(stderr, "refused") {
		t.Errorf("without the server: got exit code %d and %q, %q, want a refused connection and no password", code, stdout, stderr)
	}
	if err := os.WriteFile(url, []byte("postgress://u:"+canary+"@h/d"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr = diagnose(t, "incidents", "--config", config); code == 0 || strings.Contains(stdout+stderr, canary) {
		t.Errorf("misspelt: got exit code %d and %q, %q, want an error without the password", code, stdout, stderr)
	}
}

// TestPipeNotice: a broken pipe is said without a run, and its end in its place.
func TestPipeNotice(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	in := playbooks.Incident{
		ID: "i", Trigger: webhook.TriggerWatchdog, Title: "AlertPipeBroken", Severity: "critical", StartedAt: began,
		Alerts: []playbooks.Alert{{Firing: true, Annotations: map[string]string{"summary": "The alert that always fires has not come for 10m0s."}}},
	}
	l := &line{}
	if err := l.Work(t.Context(), in, nil); err != nil {
		t.Errorf("Work: %v, want nothing to be run", err)
	}
	chat := slacktest.Start(t)
	bot := slackSink(t, chat)
	n, err := l.notice(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n.Prior, err = bot.Notify(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	broken := chat.Roots()[0]
	if got := broken.FirstLine(); got != "🔴 The alert pipe is broken" {
		t.Errorf("first line: %q", got)
	}
	contains(t, "the message", broken.Visible(), "has not come for 10m0s", "look at Prometheus")
	prior := n.Prior
	in.ResolvedAt = began.Add(12 * time.Minute)
	if n, err = l.notice(t.Context(), in, nil); err != nil {
		t.Fatal(err)
	}
	n.Prior = prior
	if _, err = bot.Notify(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	roots := chat.Roots()
	if got := roots[0].FirstLine(); len(roots) != 1 || got != "✅ Resolved after 12 min: the alert pipe works again" || strings.Contains(roots[0].Visible(), "Measuring again") {
		t.Errorf("got %d messages: %s", len(roots), roots[0].Visible())
	}
}

// slackSink is a bot on a fake Slack.
func slackSink(t *testing.T, chat *slacktest.Server) sink {
	t.Helper()
	sinks, err := newSinks([]notifyConfig{{Slack: &slackConfig{
		Token: plainSecret(slacktest.Token), Channel: slacktest.ChannelID, APIURL: chat.APIURL(),
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sinks[0]
}
