package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
)

// startPath runs the whole reference path on real back ends under the
// scenario's load.
func startPath(t *testing.T, s fault.Scenario) *local.Path {
	t.Helper()
	path, err := local.Start(t.Context(), local.Options{
		Real: true, Names: demoNames, Faults: true,
		Filter: bloom.Params{Capacity: demoCapacity, Rate: 0.01},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := startLoad(t.Context(), path.URL, lighter(s.Load))
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("load: %v", err)
		}
		if err := path.Close(); err != nil {
			t.Errorf("close the path: %v", err)
		}
	})
	return path
}

// lighter is the load for a checker that runs under the race detector, beside
// other tests: a quarter.
func lighter(p load.Profile) load.Profile {
	p.Rate /= 4
	return p
}

// scenario finds a demo scenario.
func scenario(t *testing.T, name string) fault.Scenario {
	t.Helper()
	const bound = 10 * time.Minute // a loaded machine takes its time, and a path without traffic cannot be judged
	for _, s := range fault.Scenarios(demoNames, bound) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return fault.Scenario{}
}

// targetYAML is the target section for a path.
func targetYAML(t testing.TB, path *local.Path) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "targets:\n  - name: registration\n    checker: {url: %q}\n    redis: {address: %q}\n    shards:\n", path.URL, path.RedisAddr)
	for i, dsn := range path.ShardDSNs {
		fmt.Fprintf(&b, "      - {name: shard%d, dsn: {file: %q}}\n", i, write(t, "dsn", dsn))
	}
	return b.String()
}

// startAgent runs `diagnose serve` as a process of its own and returns the
// webhook's URL once it is ready.
func startAgent(t testing.TB, config string) (*exec.Cmd, string) {
	t.Helper()
	address := freeAddress(t)
	cmd := startProgram(t, "serve", "--config", write(t, "diagnose.yml", fmt.Sprintf("listen: %q\n%s", address, config)))
	eventually(t, "the agent is ready", 10*time.Second, func() bool { return answers(t, "http://"+address+"/-/ready") })
	return cmd, "http://" + address + webhookPath
}

// serveHere runs an agent in this process until the test ends and returns the
// webhook's URL.
func serveHere(t *testing.T, path string) string {
	t.Helper()
	c, err := loadConfig(path)
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
	ctx, cancel := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- a.run(ctx, func(at string) { address <- at }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	select {
	case at := <-address:
		return "http://" + at + webhookPath
	case err := <-ended:
		ended <- err
		t.Fatalf("agent: %v", err)
	}
	return ""
}

// readyURL asks the agent behind the webhook whether it is ready.
func readyURL(hook string) string { return strings.TrimSuffix(hook, webhookPath) + "/-/ready" }

func answers(t testing.TB, url string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: time.Second}).Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// startMonitoring runs a real Prometheus that scrapes the checker and a real
// Alertmanager that posts to the webhook.
func startMonitoring(t *testing.T, checker, hook string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	manager, server := freeAddress(t), freeAddress(t)
	am := file("am.yml", fmt.Sprintf(`
route: {receiver: diagnose, group_by: [alertname], group_wait: 100ms, group_interval: 1s, repeat_interval: 1h}
receivers:
  - name: diagnose
    webhook_configs:
      - {url: %q, send_resolved: true, http_config: {follow_redirects: false, authorization: {credentials: %s}}}
`, hook, canary))
	rules := file("rules.yml", `
groups:
  - name: registration
    rules:
      - alert: BloomFilterFull
        expr: checker_bloom_set_bits / checker_bloom_bits > 0.8
        for: 2s
        labels: {severity: P0, service: registration}
        annotations: {summary: "The Bloom filter of {{ $labels.instance }} is nearly full"}
`)
	prom := file("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs: [{job_name: checker, static_configs: [{targets: [%q]}]}]
`, rules, manager, strings.TrimPrefix(checker, "http://")))

	command := func(name string, args ...string) {
		cmd := exec.Command(name, args...) //nolint:noctx // start ends it with SIGTERM; a context would kill it
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		start(t, cmd)
	}
	command("prometheus-alertmanager", "--config.file="+am, "--storage.path="+filepath.Join(dir, "am"),
		"--web.listen-address="+manager, "--cluster.listen-address=", "--log.level=warn")
	command("prometheus", "--config.file="+prom, "--storage.tsdb.path="+filepath.Join(dir, "prom"),
		"--web.listen-address="+server, "--log.level=warn")
	for _, address := range []string{manager, server} {
		eventually(t, "monitoring is ready", 20*time.Second, func() bool { return answers(t, "http://"+address+"/-/ready") })
	}
}

// TestFaultToChat is the main job with nothing replaced but Slack: a fault, a
// rule that fires in Prometheus, Alertmanager, the agent, one message that
// names the cause, and the same message edited when the fault is gone.
func TestFaultToChat(t *testing.T) {
	s := scenario(t, "bloom-undersized")
	path := startPath(t, s)
	chat := slacktest.Start(t)
	_, hook := startAgent(t, fmt.Sprintf(`
store: %q
webhook: {tokens: [%s]}
%s
notify:
  - slack: {token: %s, channel: %s, api_url: %q}
`, filepath.Join(t.TempDir(), "diagnose.db"), canary, targetYAML(t, path), slacktest.Token, slacktest.ChannelID, chat.APIURL()))
	startMonitoring(t, path.URL, hook)

	if _, err := path.Faults.Switch(t.Context(), s.Fault, true); err != nil {
		t.Fatal(err)
	}
	const cause = "The Bloom filter is too small for its names"
	eventually(t, "a message names the cause", 90*time.Second, func() bool {
		roots := chat.Roots()
		return len(roots) > 0 && strings.Contains(roots[0].FirstLine(), cause)
	})
	reported := chat.Roots()[0]
	if len(reported.Edits) == 0 {
		t.Errorf("the message was not posted before the report was there")
	}

	if _, err := path.Faults.Switch(t.Context(), s.Fault, false); err != nil {
		t.Fatal(err)
	}
	// The alert may come back for a moment: then there is another report first.
	eventually(t, "the message says that it is over, and what it was", 90*time.Second, func() bool {
		line := chat.Roots()[0].FirstLine()
		over := strings.Contains(line, "Recovered") || strings.Contains(line, "Resolved")
		return over && strings.Contains(line, cause)
	})
	roots := chat.Roots()
	if len(roots) != 1 || roots[0].TS != reported.TS {
		t.Errorf("got %d messages in the channel, want the one from the beginning", len(roots))
	}
	if len(chat.Replies(roots[0])) == 0 {
		t.Errorf("no details in the thread")
	}
	if v := chat.Violations(); len(v) > 0 {
		t.Errorf("the messages would harm a reader: %q", v)
	}
}
