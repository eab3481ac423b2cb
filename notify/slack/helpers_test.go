package slack_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
)

var began = time.Date(2026, 11, 30, 16, 2, 0, 0, time.UTC)

func loadReport(t *testing.T, name string) *playbooks.Report {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "reports", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r playbooks.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func newBot(t *testing.T, s *slacktest.Server, change ...func(*slack.BotConfig)) *slack.Bot {
	t.Helper()
	c := slack.BotConfig{
		Token: notify.NewSecret(slacktest.Token), Channel: slacktest.ChannelID,
		APIURL: s.APIURL(), Timeout: 5 * time.Second, PostEvery: -1,
	}
	for _, f := range change {
		f(&c)
	}
	b, err := slack.NewBot(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newWebhook(t *testing.T, url string) *slack.Webhook {
	t.Helper()
	w, err := slack.NewWebhook(slack.WebhookConfig{URL: notify.NewSecret(url), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func incident(alerts ...playbooks.Alert) playbooks.Incident {
	return playbooks.Incident{
		ID: "inc-7f3a", Trigger: "alertmanager", Title: "CheckLatencyHigh", Severity: "P0", StartedAt: began,
		Alerts: append([]playbooks.Alert{{
			Firing: true, StartsAt: began, Labels: map[string]string{"alertname": "CheckLatencyHigh", "job": "checker"},
			Annotations:  map[string]string{"summary": "P99 of name checks is above 500 ms"},
			GeneratorURL: "http://prom.example:9090/graph?g0.expr=up+%3D%3D+0&g0.tab=1",
		}}, alerts...),
	}
}

// must delivers n and fails the test if that fails.
func must(t *testing.T, s notify.Notifier, n notify.Notice) notify.Receipt {
	t.Helper()
	at, err := notify.All(t.Context(), s, n)
	if err != nil {
		t.Fatalf("Notify: %v", err)
	}
	return at
}

// fails delivers n, wants a failure of the given class, and returns it.
func fails(t *testing.T, s notify.Notifier, n notify.Notice, want notify.Class) (notify.Receipt, notify.Error) {
	t.Helper()
	at, err := notify.All(t.Context(), s, n)
	e, ok := err.(*notify.Error) //nolint:errorlint // sinks return it unwrapped
	if !ok {
		t.Fatalf("Notify: error %T %v, want a *notify.Error", err, err)
	}
	if e.Class != want {
		t.Fatalf("Notify: class %v (%v), want %v", e.Class, err, want)
	}
	return at, *e
}

// clean fails the test if the fake saw anything that would harm a reader.
func clean(t *testing.T, s *slacktest.Server) {
	t.Helper()
	for _, v := range s.Violations() {
		t.Errorf("violation: %s", v)
	}
}

// only returns the one message that stands in a channel.
func only(t *testing.T, s *slacktest.Server) slacktest.Message {
	t.Helper()
	roots := s.Roots()
	if len(roots) != 1 {
		t.Fatalf("%d messages in the channel, want 1", len(roots))
	}
	return roots[0]
}

// threadText returns all that stands in the thread of the one message.
func threadText(t *testing.T, s *slacktest.Server) string {
	t.Helper()
	var b strings.Builder
	for _, m := range s.Replies(only(t, s)) {
		b.WriteString(m.Visible() + "\n")
	}
	return b.String()
}

// deliver says an incident through all its phases by bot and by webhook, and
// checks that nothing was refused, doubled or harmful.
func deliver(t *testing.T, in playbooks.Incident, r *playbooks.Report) *slacktest.Server {
	t.Helper()
	s := slacktest.Start(t)
	n := notify.Notice{Incident: in, Checks: []string{in.Title, "Redis"}}
	b, w := newBot(t, s), newWebhook(t, s.WebhookURL())
	n.Prior = must(t, b, n)
	n.Phase, n.Report = notify.Reported, r
	n.Prior = must(t, b, n)
	n.Prior = must(t, b, n) // every message can be edited
	n.Incident.ResolvedAt = began.Add(time.Minute)
	n.Phase = notify.Resolved
	must(t, b, n)
	only(t, s)
	for _, c := range s.Calls() {
		if c.Error != "" {
			t.Errorf("%s was refused: %s", c.Method, c.Error)
		}
	}
	n.Prior = notify.Receipt{}
	n.Phase = notify.Reported
	n.Prior = must(t, w, n)
	n.Phase = notify.Resolved
	must(t, w, n)
	for _, c := range s.Calls() {
		if c.Error != "" {
			t.Errorf("%s was refused: %s", c.Method, c.Error)
		}
	}
	clean(t, s)
	return s
}

// botMessage is the one message in the channel that the bot posted.
func botMessage(t *testing.T, s *slacktest.Server) slacktest.Message {
	t.Helper()
	for _, m := range s.Roots() {
		if !m.Webhook {
			return m
		}
	}
	t.Fatal("the bot posted nothing")
	return slacktest.Message{}
}

func replyText(t *testing.T, s *slacktest.Server) string {
	t.Helper()
	var b strings.Builder
	for _, m := range s.Replies(botMessage(t, s)) {
		b.WriteString(m.Visible())
	}
	return b.String()
}

func alert(annotations map[string]string, url string) playbooks.Alert {
	return playbooks.Alert{Firing: true, StartsAt: began, Labels: map[string]string{"alertname": "HighErrorRate"}, Annotations: annotations, GeneratorURL: url}
}

// decoded returns JSON with its \u escapes resolved, for comparison.
func decoded(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	if raw == nil {
		return ""
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(v)
}

func textInBlocks(t *testing.T, m slacktest.Message) int {
	t.Helper()
	n := 0
	for _, part := range strings.SplitAfter(decoded(t, m.Blocks), "text:") {
		n += len([]rune(part))
	}
	return n
}
