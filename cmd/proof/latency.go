package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
)

// latency measures how long people wait: from the first byte of the alert's POST
// until Slack has the first message, and until it has the report. The agent is
// the shipped binary; the path it looks at is under load and has a fault.
type latency struct {
	binary   string
	alerts   int
	channels int
	every    time.Duration
	warmUp   time.Duration
	real     bool
	scenario string
	verbose  bool
}

func newLatency() *cobra.Command {
	l := latency{}
	cmd := suite("latency", "Measure the time from an alert to its first message and to its report", l.run)
	fs := cmd.Flags()
	fs.StringVar(&l.binary, "diagnose", "", "the binary to prove (default the one beside this)")
	fs.IntVar(&l.alerts, "alerts", 100, "alerts to send, each of a group of its own")
	fs.IntVar(&l.channels, "channels", 10, "channels, each of which gets an alert of every outage: it takes a message a second, details included")
	fs.DurationVar(&l.every, "every", 11*time.Second, "time between outages: a little more than a round of the recorder, so that they meet it anywhere")
	fs.DurationVar(&l.warmUp, "warm-up", groupWait+5*time.Second, "time for the agent to gather samples before the first alert")
	fs.BoolVar(&l.real, "real", true, "run the path on real back ends")
	fs.StringVar(&l.scenario, "scenario", "write-on-read", "fault of the path")
	fs.BoolVar(&l.verbose, "verbose", false, "show what the agent logs")
	return cmd
}

// The goals, of 95 in 100 alerts.
const (
	firstGoal  = 100 * time.Millisecond
	reportGoal = time.Second
)

// slackBurst is how many messages the fake takes at once before it insists on one
// a second; how many Slack takes it does not say.
const slackBurst = 3

// groupWait is how long the alerts have fired when they arrive: Alertmanager's default.
const groupWait = 30 * time.Second

// latencyNames are taken in the path.
const latencyNames = 20_000

func (l *latency) run(ctx context.Context, out io.Writer) (err error) {
	if l.alerts < 1 || l.channels < 1 {
		return errors.New("want at least one alert and one channel")
	}
	if l.binary, err = beside(l.binary, "diagnose"); err != nil {
		return err
	}
	scenarios := fault.Scenarios(latencyNames, time.Hour)
	i := slices.IndexFunc(scenarios, func(s fault.Scenario) bool { return s.Name == l.scenario })
	if i < 0 {
		return fmt.Errorf("unknown scenario %q", l.scenario)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path, err := local.Start(ctx, local.Options{
		Real: l.real, Names: latencyNames, Faults: true, Filter: bloom.Params{Capacity: latencyNames * 3 / 2, Rate: 0.01},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, path.Close()) }()
	loaded := make(chan error, 1)
	loadCtx, stopLoad := context.WithCancel(ctx)
	go func() {
		_, err := load.Run(loadCtx, path.URL, scenarios[i].Load)
		loaded <- err
	}()
	defer func() {
		stopLoad()
		err = errors.Join(err, <-loaded)
	}()
	if scenarios[i].Fault != "" {
		if _, err := path.Faults.Switch(ctx, scenarios[i].Fault, true); err != nil {
			return err
		}
	}
	return l.withAgent(ctx, path, out)
}

// withAgent runs the agent against a fake Slack that keeps Slack's limits.
func (l *latency) withAgent(ctx context.Context, path *local.Path, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "diagnose-latency-")
	if err != nil {
		return fmt.Errorf("make a folder for the store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fake, stop, err := slacktest.Serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for i := range l.channels {
		fake.AddChannel(latencyChannel(i), fmt.Sprint("latency-", i), true)
	}
	fake.LimitBurst(time.Second, slackBurst)

	config := filepath.Join(dir, "diagnose.yml")
	if err := os.WriteFile(config, []byte(l.config(dir, path, fake)), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	a, err := startAgent(ctx, l.binary, config, shown(l.verbose))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	if err := pause(ctx, l.warmUp); err != nil {
		return err
	}
	sent, err := l.send(ctx, a.hook)
	if err != nil {
		return err
	}
	return l.judge(ctx, fake, sent, out)
}

func latencyChannel(i int) string { return fmt.Sprintf("C0LATENCY%02d", i) }

// config has one target, and routes every alert to the channel that it names. The
// secrets are for this run.
func (l *latency) config(dir string, path *local.Path, fake *slacktest.Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: 127.0.0.1:0\nstore: %q\nwebhook: {tokens: [%q]}\n", filepath.Join(dir, "diagnose.db"), agentToken)
	fmt.Fprintf(&b, "targets:\n  - name: registration\n    checker: {url: %q}\n    redis: {address: %q}\n", path.URL, path.RedisAddr)
	if len(path.ShardDSNs) > 0 {
		b.WriteString("    shards:\n")
	}
	for i, dsn := range path.ShardDSNs {
		fmt.Fprintf(&b, "      - {name: shard%d, dsn: %q}\n", i, dsn)
	}
	b.WriteString("notify:\n")
	for i := range l.channels {
		fmt.Fprintf(&b, "  - slack: {name: chat-%d, token: %q, channel: %q, api_url: %q}\n", i, slacktest.Token, latencyChannel(i), fake.APIURL())
	}
	b.WriteString("routes:\n")
	for i := range l.channels {
		fmt.Fprintf(&b, "  - {matchers: ['channel=\"%d\"'], notify: [chat-%d]}\n", i, i)
	}
	return b.String()
}

// send posts the alerts, those of one outage as fast as they are answered, and returns
// when each was begun. The connection is kept, as Alertmanager's is.
func (l *latency) send(ctx context.Context, hook string) ([]time.Time, error) {
	sent := make([]time.Time, l.alerts)
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for i := range sent {
		name := alertName(i)
		body := fmt.Sprintf(`{"version":"4","groupKey":"{}:{alertname=\"%[1]s\"}","receiver":"diagnose","status":"firing",
			"groupLabels":{"alertname":%[1]q},"commonLabels":{"alertname":%[1]q,"severity":"P0"},
			"alerts":[{"status":"firing","labels":{"alertname":%[1]q,"severity":"P0","channel":"%[3]d"},"annotations":{"summary":"measured"},
			"startsAt":%[2]q,"endsAt":"0001-01-01T00:00:00Z"}]}`, name, time.Now().Add(-groupWait).UTC().Format(time.RFC3339Nano), i%l.channels)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook, bytes.NewReader([]byte(body)))
		if err != nil {
			return nil, fmt.Errorf("build request: %w", err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+agentToken)
		sent[i] = time.Now()
		res, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("post alert %d: %w", i, err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return nil, fmt.Errorf("post alert %d: %w", i, err)
		}
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("post alert %d: status %d", i, res.StatusCode)
		}
		if (i+1)%l.channels > 0 {
			continue
		}
		if err := pause(ctx, l.every); err != nil {
			return nil, err
		}
	}
	return sent, nil
}

// alertName is part of the first message, by which that is found.
func alertName(i int) string { return fmt.Sprintf("Latency%04d", i) }

// looking is what a message begins with until the report is there.
const looking = "Looking into "

// judge waits for the last report and prints what all of them took.
func (l *latency) judge(ctx context.Context, fake *slacktest.Server, sent []time.Time, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var first, report []time.Duration
	for {
		changed := fake.Changed()
		if first, report = waits(fake.Roots(), sent); len(report) == len(sent) {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d alerts have a message, %d a report", len(first), len(sent), len(report))
		}
	}
	if n := len(fake.Roots()); n != len(sent) {
		return fmt.Errorf("%d messages for %d alerts", n, len(sent))
	}
	if v := fake.Violations(); len(v) > 0 {
		return fmt.Errorf("the messages would harm a reader: %q", v)
	}
	missed := false
	for _, r := range []struct {
		what string
		took []time.Duration
		goal time.Duration
	}{{"first message", first, firstGoal}, {"report", report, reportGoal}} {
		slices.Sort(r.took)
		p50, p95 := percentile(r.took, 50), percentile(r.took, 95)
		met := "met"
		if p95 > r.goal {
			met, missed = "MISSED", true
		}
		if _, err := fmt.Fprintf(out, "%-14s P50 %4d ms, P95 %4d ms, worst %4d ms over %d alerts (goal P95 %d ms, %s)\n", r.what,
			p50.Milliseconds(), p95.Milliseconds(), r.took[len(r.took)-1].Milliseconds(), len(r.took), r.goal.Milliseconds(), met); err != nil {
			return err
		}
	}
	if missed {
		return errors.New("a goal was missed")
	}
	return nil
}

// percentile returns the p-th percentile of sorted values, by nearest rank.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// waits finds out when Slack had the first message of each alert, and the report.
func waits(roots []slacktest.Message, sent []time.Time) (first, report []time.Duration) {
	for _, m := range roots {
		texts := make([]string, 0, len(m.Edits)+1)
		for _, e := range m.Edits {
			texts = append(texts, e.Text)
		}
		texts = append(texts, m.Text)
		i, ok := alertOf(texts, len(sent))
		if !ok {
			continue
		}
		first = append(first, postedAt(m).Sub(sent[i]))
		for n, text := range texts {
			if strings.Contains(text, looking) {
				continue
			}
			at := postedAt(m)
			if n > 0 {
				at = m.Edits[n-1].Until
			}
			report = append(report, at.Sub(sent[i]))
			break
		}
	}
	return first, report
}

// alertOf finds the alert that a message is about.
func alertOf(texts []string, alerts int) (int, bool) {
	for _, text := range texts {
		_, rest, ok := strings.Cut(text, "Latency")
		if !ok || len(rest) < 4 {
			continue
		}
		if i, err := strconv.Atoi(rest[:4]); err == nil && i < alerts {
			return i, true
		}
	}
	return 0, false
}

// postedAt reads the time out of a message's ts.
func postedAt(m slacktest.Message) time.Time {
	seconds, micros, _ := strings.Cut(m.TS, ".")
	s, _ := strconv.ParseInt(seconds, 10, 64)
	u, _ := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, u*1000)
}
