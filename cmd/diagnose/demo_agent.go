package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/local"
)

//go:embed demo_alert.json
var demoAlert string

// demoAgent is a whole agent, as `serve` runs it, whose only sink hands the
// report to the demo.
type demoAgent struct {
	url, token string
	reports    chan playbooks.Report
	stop       func() error
}

// startDemoAgent starts an agent for the path. The zero recorderConfig has no
// recorder: a demo is over before there is a past to compare with.
func startDemoAgent(ctx context.Context, path *local.Path, recorder recorderConfig) (*demoAgent, error) {
	dir, err := os.MkdirTemp("", "diagnose-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the store: %w", err)
	}
	remove := func() error { return os.RemoveAll(dir) }
	d := &demoAgent{token: rand.Text(), reports: make(chan playbooks.Report, 1)}
	c := &config{
		Listen:   "127.0.0.1:0",
		Store:    plainSecret(filepath.Join(dir, "diagnose.db")),
		Playbook: defaultPlaybook,
		Recorder: recorder,
		Webhook:  webhookConfig{Tokens: []secret{{Secret: notify.NewSecret(d.token)}}},
		Targets: []targetConfig{{
			Name:    "registration",
			Checker: checkerConfig{URL: path.URL},
			Redis:   redisConfig{Address: path.RedisAddr},
		}},
	}
	for i, dsn := range path.ShardDSNs {
		c.Targets[0].Shards = append(c.Targets[0].Shards, shardConfig{Name: fmt.Sprintf("shard%d", i), DSN: secret{Secret: notify.NewSecret(dsn)}})
	}
	a, err := newAgent(ctx, c, []sink{{"demo", d}}, quiet())
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	runCtx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- a.run(runCtx, func(address string) { ready <- address }) }()
	d.stop = func() error {
		cancel()
		return errors.Join(<-ended, remove())
	}
	select {
	case address := <-ready:
		d.url = "http://" + address + webhookPath
		return d, nil
	case err := <-ended:
		cancel()
		return nil, errors.Join(err, remove())
	}
}

// Notify implements notify.Notifier.
func (d *demoAgent) Notify(_ context.Context, n notify.Notice) (notify.Receipt, error) {
	if n.Phase == notify.Reported {
		select {
		case d.reports <- *n.Report:
		default: // a report was handed over already
		}
	}
	return notify.Receipt{Sink: "demo"}, nil
}

// alert posts what Alertmanager would post, and fails unless it was stored.
func (d *demoAgent) alert(ctx context.Context, instance string, startsAt time.Time) error {
	t, err := template.New("alert").Parse(demoAlert)
	if err != nil {
		return fmt.Errorf("alert template: %w", err)
	}
	var body bytes.Buffer
	err = t.Execute(&body, map[string]string{
		"Instance": strings.TrimPrefix(instance, "http://"),
		"StartsAt": startsAt.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return fmt.Errorf("alert template: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, &body)
	if err != nil {
		return fmt.Errorf("post the alert: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+d.token)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("post the alert: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("post the alert: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("post the alert: %s: %s", resp.Status, bytes.TrimSpace(answer))
	}
	return nil
}

// report waits for the report.
func (d *demoAgent) report(ctx context.Context, patience time.Duration) (*playbooks.Report, error) {
	select {
	case r := <-d.reports:
		return &r, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("interrupted: %w", ctx.Err())
	case <-time.After(patience):
		return nil, fmt.Errorf("no report within %s of the alert", patience)
	}
}
