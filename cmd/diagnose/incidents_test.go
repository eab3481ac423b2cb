package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify/slack/slacktest"
)

// TestIncidents lists what the agent could not tell, while it runs, and shows the
// report of one incident.
func TestIncidents(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	chat := slacktest.Start(t)
	config := write(t, "diagnose.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
store: %q
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
notify:
  - slack: {name: good, token: %s, channel: %s, api_url: %q}
  - slack: {name: shut, token: %s, channel: C0NOWHERE, api_url: %q}
`, filepath.Join(t.TempDir(), "diagnose.db"), canary, target.URL,
		slacktest.Token, slacktest.ChannelID, chat.APIURL(), slacktest.Token, chat.APIURL()))
	hook := serveHere(t, config)
	if got := postAlert(t, hook); got != http.StatusOK {
		t.Fatalf("post: got status %d, want 200", got)
	}
	list := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := diagnose(t, append([]string{"incidents", "--config", config}, args...)...)
		if code != 0 {
			t.Fatalf("incidents %q: got exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	eventually(t, "the shut channel is given up and the good one is done", 30*time.Second, func() bool {
		out := list("--undelivered")
		return strings.Contains(out, "not told to shut since") && strings.Contains(out, "invite the bot") && !strings.Contains(out, "to good")
	})
	id, _, _ := strings.Cut(list(), " ")
	eventually(t, "the report is written", 30*time.Second, func() bool { return !strings.Contains(list(id), "being worked on") })
	contains(t, "incidents ID", list(id), "RegistrationPathSick", "P0", "Cannot tell", "Cost of this run")
	contains(t, "incidents --output json", list("--output", "json"), `"id": "`+id+`"`, `"courier": "shut"`)
	contains(t, "incidents ID", list(id), "  1 of 1 alert firing  ")
	if got := list("--state", "resolved"); got != "none\n" {
		t.Errorf("resolved ones: got %q, want none", got)
	}
	if got := postResolved(t, hook); got != http.StatusOK {
		t.Fatalf("post the end: got status %d, want 200", got)
	}
	eventually(t, "the recovery check is written", 30*time.Second, func() bool { return strings.Contains(list(id), "Measured again") })
	contains(t, "incidents ID after the end", list(id), "  0 of 1 alert firing  ",
		"Resolved after 20 min, cannot tell whether it has recovered: RegistrationPathSick\n"+
			"Measured again after the alert resolved: no cause had been found, and the second look is inconclusive\n\nThe report, from before:\n\nCannot tell")
	says(t, exitUsage, []string{"incidents", "--config", config, "nope"}, `no incident "nope"`)
	says(t, exitUsage, []string{"incidents"}, "give the store either by --config FILE or by --store FILE")
	says(t, exitUsage, []string{"incidents", "--store", "/nowhere/x.db"}, "no such file")
	says(t, exitUsage, []string{"incidents", "--store", "x", "--state", "resolvd"}, `want one of open, resolved, stale; did you mean "resolved"?`)
	says(t, exitUsage, []string{"incidents", "--store", "x", "--limit", "0"}, "want at least 1")
	says(t, exitUsage, []string{"incidents", "--store", "x", "--output", "xml"}, "want text or json")
}
