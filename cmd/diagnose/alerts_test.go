package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify/slack/slacktest"
)

// TestAlertRules lets promtool judge the rules on series that are well, and that
// are not; every rule must fire in one of its tests.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", filepath.Join("testdata", "alerts_test.yml")}} {
		out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %q: %v (Debian: apt-get install prometheus)\n%s", args, err, out)
		}
	}
	rules, tests := read(t, "alerts.yml"), read(t, filepath.Join("testdata", "alerts_test.yml"))
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(names) == 0 {
		t.Error("there are no rules")
	}
	for _, m := range names {
		if !strings.Contains(tests, "alertname: "+m[1]+"\n") {
			t.Errorf("no test lets %s fire", m[1])
		}
	}
}

// TestAlertedMetrics: every series that the rules are about is one that the agent
// has, once all of it has happened.
func TestAlertedMetrics(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	chat := slacktest.Start(t)
	config := write(t, "diagnose.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
store: %q
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
recorder: {every: 1s, keep: 1m}
notify: [{slack: {token: %s, channel: %s, api_url: %q}}]
`, filepath.Join(t.TempDir(), "diagnose.db"), canary, target.URL, slacktest.Token, slacktest.ChannelID, chat.APIURL()))
	hook := serveHere(t, config)
	if got := postAlert(t, hook); got != http.StatusOK {
		t.Fatalf("post: got status %d, want 200", got)
	}
	if answers(t, hook) {
		t.Fatal("the webhook takes a GET")
	}
	metrics := strings.Replace(hook, webhookPath, "/metrics", 1)
	missing := func() (names []string) {
		has := scrape(t, metrics)
		for _, name := range regexp.MustCompile(`diagnose_[a-z_]+`).FindAllString(read(t, "alerts.yml"), -1) {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(has) {
				names = append(names, name)
			}
		}
		return names
	}
	eventually(t, "the agent has every series that a rule is about", 30*time.Second, func() bool { return len(missing()) == 0 })
	if names := missing(); len(names) > 0 {
		t.Errorf("missing: %q", names)
	}
}
