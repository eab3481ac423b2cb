package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/regpath/diagnose/notify/slack/slacktest"
)

// postAlert sends the demo's notification and returns the status.
func postAlert(t *testing.T, hook string) int {
	t.Helper()
	return postBody(t, hook, alertBody(t))
}

// postResolved sends the end of what postAlert sent.
func postResolved(t *testing.T, hook string) int {
	t.Helper()
	body := strings.ReplaceAll(alertBody(t), `"firing"`, `"resolved"`)
	return postBody(t, hook, strings.ReplaceAll(body, "0001-01-01T00:00:00Z", "2026-11-30T10:20:00Z"))
}

func alertBody(t *testing.T) string {
	t.Helper()
	var body strings.Builder
	values := map[string]string{"Instance": "checker", "StartsAt": "2026-11-30T10:00:00Z"}
	if err := template.Must(template.New("").Parse(demoAlert)).Execute(&body, values); err != nil {
		t.Fatal(err)
	}
	return body.String()
}

func postBody(t *testing.T, hook, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+canary)
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// TestKilledAgentFinishes kills the agent with SIGKILL between the 2xx and the
// report: the next one on the same store finishes it, in the same message.
func TestKilledAgentFinishes(t *testing.T) {
	// The target hangs until it is let go, so that the kill hits a run under way.
	var asked atomic.Int32
	release := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-release:
			http.NotFound(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(target.Close)
	chat := slacktest.Start(t)
	config := fmt.Sprintf(`
store: %q
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
notify: [{slack: {token: %s, channel: %s, api_url: %q}}]
`, filepath.Join(t.TempDir(), "diagnose.db"), canary, target.URL, slacktest.Token, slacktest.ChannelID, chat.APIURL())

	first, hook := startAgent(t, config)
	opened := asked.Load()
	if got := postAlert(t, hook); got != http.StatusOK {
		t.Fatalf("post: got status %d, want 200", got)
	}
	eventually(t, "the run is under way and announced", 10*time.Second, func() bool {
		return asked.Load() > opened && len(chat.Roots()) == 1
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err == nil {
		t.Fatal("the agent ended by itself before it was killed")
	}
	close(release)

	_, hook = startAgent(t, config)
	eventually(t, "the report is there", 30*time.Second, func() bool {
		return strings.Contains(chat.Roots()[0].FirstLine(), "Cannot tell")
	})
	// The sender repeats itself, as Alertmanager does.
	if got := postAlert(t, hook); got != http.StatusOK {
		t.Errorf("repeat: got status %d, want 200", got)
	}
	posts := chat.Count("chat.postMessage")
	if roots := chat.Roots(); len(roots) != 1 {
		t.Errorf("got %d messages in the channel, want 1", len(roots))
	}
	if again := chat.Count("chat.postMessage"); again != posts {
		t.Errorf("something was posted after the report: %d posts, then %d", posts, again)
	}
}

// TestNobodyReadsStdout: the agent outlives whoever reads its stdout, and says what
// was not told there.
func TestNobodyReadsStdout(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	address := freeAddress(t)
	config := write(t, "diagnose.yml", fmt.Sprintf(`
listen: %s
store: %q
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
notify: [{stdout: {}}]
`, address, filepath.Join(t.TempDir(), "diagnose.db"), canary, target.URL))
	reader, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "serve", "--config", config)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asAgent+"=1"), stdout, t.Output()
	start(t, cmd)
	if err := errors.Join(stdout.Close(), reader.Close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent is ready", 20*time.Second, func() bool { return answers(t, "http://"+address+"/-/ready") })
	if got := postAlert(t, "http://"+address+webhookPath); got != http.StatusOK {
		t.Fatalf("post: got status %d, want 200", got)
	}
	eventually(t, "what was not told is listed", 30*time.Second, func() bool {
		_, listed, _ := diagnose(t, "incidents", "--config", config, "--undelivered")
		return strings.Contains(listed, "not told to stdout") && strings.Contains(listed, "broken pipe")
	})
	if !answers(t, "http://"+address+"/-/ready") {
		t.Error("the agent has gone")
	}
}
