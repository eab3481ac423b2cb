package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/local"
)

// TestWarmAlert: an agent that records has a first sample when the alert comes,
// and neither the recorder nor the run beside it opens a second connection.
func TestWarmAlert(t *testing.T) {
	path, err := local.Start(t.Context(), local.Options{Real: true, Shards: 2, Names: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := path.Close(); err != nil {
			t.Error(err)
		}
	})
	front := newFront(t, path.URL)
	behind := *path
	behind.URL = front.server.URL
	agent, err := startDemoAgent(t.Context(), &behind, recorderConfig{Every: time.Second, Keep: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := agent.stop(); err != nil {
			t.Error(err)
		}
	})
	metrics := strings.TrimSuffix(agent.url, webhookPath) + "/metrics"
	eventually(t, "the recorder has a past", 60*time.Second, func() bool {
		return metric(t, metrics, "diagnose_recorder_samples_total") >= 20
	})
	if err := agent.alert(t.Context(), path.URL, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	r, err := agent.report(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the run took %d ms at a cost of %+v", r.DurationMS, r.Cost)
	for _, f := range r.Findings {
		if f.Step != "shards" {
			continue
		}
		if first := f.At.Add(-f.Window); f.Error != "" || !first.Before(r.StartedAt) {
			t.Errorf("%s: %s, first sample at %s, want one from before the run began at %s", f.Step, f.Error, first, r.StartedAt)
		}
	}
	if n := front.most.Load(); n != 1 {
		t.Errorf("checker: got at most %d connections of the agent, want 1", n)
	}
	server := redis.NewClient(&redis.Options{Addr: path.RedisAddr})
	list, err := server.ClientList(t.Context()).Result()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(list, " name=diagnose "); err != nil || n != 1 {
		t.Errorf("redis: got %d connections of the agent, %v, want 1", n, err)
	}
	for _, dsn := range path.ShardDSNs {
		if n := sessions(t, dsn); n != 1 {
			t.Errorf("shard: got %d sessions of the agent, want 1", n)
		}
	}
	for _, name := range []string{"redis_commands", "queries", "http_requests", "bytes"} {
		if metric(t, metrics, "diagnose_recorder_"+name+"_total") == 0 {
			t.Errorf("the recorder's %s are not counted", name)
		}
	}
}

// metric reads one of the agent's own metrics.
func metric(t testing.TB, url, name string) float64 {
	t.Helper()
	for lines := bufio.NewScanner(strings.NewReader(scrape(t, url))); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("%s has no metric %s", url, name)
	return 0
}

// scrape reads all of the agent's own metrics.
func scrape(t testing.TB, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// BenchmarkRecorder measures a whole agent that records eight real shards ten times
// as often as it does unless told otherwise, and remembers an hour of it: its
// processor time is ten times that of the recorder, and then some.
//
//	go test ./cmd/diagnose -run '^$' -bench Recorder -benchtime 1x
func BenchmarkRecorder(b *testing.B) {
	const (
		often = time.Second
		look  = 60 * time.Second
	)
	path, err := local.Start(b.Context(), local.Options{Real: true, Shards: 8, Names: 20_000})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := path.Close(); err != nil {
			b.Error(err)
		}
	})
	_, url := startAgent(b, fmt.Sprintf("store: %q\nrecorder: {every: %s, keep: 1h}\nwebhook: {tokens: [x]}\nnotify: [{stdout: {}}]\n%s",
		b.TempDir()+"/diagnose.db", often, targetYAML(b, path)))
	metrics := strings.TrimSuffix(url, webhookPath) + "/metrics"
	for b.Loop() {
		samples, cpu := metric(b, metrics, "diagnose_recorder_samples_total"), metric(b, metrics, "process_cpu_seconds_total")
		<-time.After(look)
		samples = metric(b, metrics, "diagnose_recorder_samples_total") - samples
		cpu = metric(b, metrics, "process_cpu_seconds_total") - cpu
		perRound := cpu / look.Seconds() * often.Seconds()
		usual := recorderConfig{Every: 10 * time.Second}
		b.ReportMetric(100*perRound/usual.Every.Seconds(), "%core")
		b.ReportMetric(samples/look.Seconds(), "checks/s")
		b.ReportMetric(metric(b, metrics, "process_resident_memory_bytes")/(1<<20), "MB")
		b.ReportMetric(0, "ns/op")
	}
}
