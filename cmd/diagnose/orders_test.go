package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/notify/slack/slacktest"
)

// TestOrders orders a run by slash command, presses every button of a report, and
// finds the marks in the statistics.
func TestOrders(t *testing.T) {
	chat := slacktest.Start(t)
	config := write(t, "diagnose.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
store: %q
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
notify:
  - slack:
      token: %s
      channel: %s
      api_url: %q
      orders: {signing_secret: %s, users: [U0BOSS], channels: [C0OPS]}
`, filepath.Join(t.TempDir(), "diagnose.db"), canary, careless(t), slacktest.Token, slacktest.ChannelID, chat.APIURL(), canary))
	hook := serveHere(t, config)
	to := strings.TrimSuffix(hook, webhookPath) + ordersPath
	order := func(form url.Values) string {
		t.Helper()
		req, err := slacktest.Signed(t.Context(), to, canary, form, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("order: got %s and %v", resp.Status, err)
		}
		return string(b)
	}
	contains(t, "unknown playbook", order(slacktest.SlashCommand("U0BOSS", slacktest.ChannelID, "/diagnose", "nope")), "There is no playbook", "registration-path")
	contains(t, "unknown target", order(slacktest.SlashCommand("U0BOSS", slacktest.ChannelID, "/diagnose", "registration-path nope")), "There is no target")
	contains(t, "too many words", order(slacktest.SlashCommand("U0BOSS", slacktest.ChannelID, "/diagnose", "a b c")), "Usage")
	contains(t, "stranger", order(slacktest.SlashCommand("U0X", slacktest.ChannelID, "/diagnose", "")), "You may not")
	if got := len(chat.Roots()); got != 0 {
		t.Fatalf("%d messages after orders that were refused, want none", got)
	}
	contains(t, "run", order(slacktest.SlashCommand("U0BOSS", slacktest.ChannelID, "/diagnose", "registration-path registration")), "Running registration-path on registration")
	eventually(t, "the ordered report is there", 30*time.Second, func() bool {
		return len(chat.Roots()) == 1 && strings.Contains(chat.Roots()[0].FirstLine(), "Cannot tell")
	})

	if got := postAlert(t, hook); got != http.StatusOK {
		t.Fatalf("post: got status %d, want 200", got)
	}
	eventually(t, "the alert's report is there", 30*time.Second, func() bool {
		return len(chat.Roots()) == 2 && strings.Contains(string(chat.Roots()[1].Blocks), string(slack.ButtonRight))
	})
	report := chat.Roots()[1]
	_, list, _ := diagnose(t, "incidents", "--config", config)
	id, _, _ := strings.Cut(list, " ")
	for i, c := range []struct {
		button slack.Button
		want   string
	}{
		{slack.ButtonRight, "Noted as right"},
		{slack.ButtonWrong, "Noted as wrong"},
		{slack.ButtonEvidence, "Could not be looked at"},
		{slack.ButtonAgain, "Running registration-path"},
	} {
		form, err := slacktest.Press("U0BOSS", report, string(c.button), id)
		if err != nil {
			t.Fatal(err)
		}
		order(form)
		eventually(t, "the answer to "+string(c.button), 30*time.Second, func() bool { return len(chat.Whispers()) == i+1 })
		w := chat.Whispers()[i]
		contains(t, string(c.button), w.Text, c.want)
		if w.User != "U0BOSS" || w.ThreadTS != report.TS {
			t.Errorf("%s: answered %+v, want the user, in the thread", c.button, w)
		}
	}
	eventually(t, "the repeated run's report is there", 30*time.Second, func() bool {
		return len(chat.Roots()) == 3 && strings.Contains(chat.Roots()[2].FirstLine(), "Cannot tell")
	})
	// A user has one mark, the last one.
	says(t, exitHealthy, []string{"incidents", "--config", config, "--stats"}, "inconclusive", "1 report, marked right 0 times, wrong 1 time")
	if v := chat.Violations(); len(v) > 0 {
		t.Errorf("the messages would harm a reader: %q", v)
	}
}
