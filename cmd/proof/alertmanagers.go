package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// alertmanagers are a highly available pair: two Alertmanagers that tell each
// other what they have sent.
type alertmanagers struct {
	peers  []*exec.Cmd
	apis   []string
	client *client
}

// firedAlert is an alert as Alertmanager's API takes it.
type firedAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt,omitzero"`
}

// repeat_interval is longer than any proof: a repetition would hide what was lost.
// resolve_timeout likewise, as alerts are sent once.
const alertmanagerConfig = `
global: {resolve_timeout: 4h}
route: {receiver: diagnose, group_by: [alertname], group_wait: 1s, group_interval: 5s, repeat_interval: 4h}
receivers:
  - name: diagnose
    webhook_configs:
`

// startAlertmanagers starts the pair in a folder; each posts to all hooks.
func startAlertmanagers(ctx context.Context, dir string, hooks []string) (_ *alertmanagers, err error) {
	a := &alertmanagers{client: newClient(2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.stop())
		}
	}()
	var text strings.Builder
	text.WriteString(alertmanagerConfig)
	for _, hook := range hooks {
		fmt.Fprintf(&text, "      - {url: %q, http_config: {follow_redirects: false, authorization: {credentials: %q}}}\n", hook, agentToken)
	}
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write Alertmanager's configuration: %w", err)
	}
	var cluster []string
	for i := range 2 {
		web, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		gossip, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		cluster = append(cluster, "--cluster.peer="+gossip)
		args := []string{
			"--config.file=" + config, "--storage.path=" + filepath.Join(dir, fmt.Sprint("alertmanager-", i)), "--web.listen-address=" + web,
			"--cluster.listen-address=" + gossip, "--cluster.advertise-address=" + gossip, "--cluster.peer-timeout=2s",
			"--cluster.settle-timeout=10s",
		}
		// Debian's package calls it prometheus-alertmanager.
		peer := exec.CommandContext(ctx, "prometheus-alertmanager", append(args, cluster[:i]...)...)
		if err := peer.Start(); err != nil {
			return nil, fmt.Errorf("start Alertmanager: %w (Debian: apt-get install prometheus-alertmanager)", err)
		}
		a.peers = append(a.peers, peer)
		a.apis = append(a.apis, "http://"+web+"/api/v2/alerts")
		if err := listens(ctx, web); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// send gives the alerts to both, as Prometheus does.
func (a *alertmanagers) send(ctx context.Context, alerts []firedAlert) error {
	body, err := json.Marshal(alerts)
	if err != nil {
		return fmt.Errorf("spell alerts: %w", err)
	}
	for _, api := range a.apis {
		code, _, err := a.client.send(ctx, http.MethodPost, api, body, nil, nil)
		if err != nil {
			return fmt.Errorf("send alerts: %w", err)
		}
		if code != http.StatusOK {
			return fmt.Errorf("send alerts: Alertmanager answered %d", code)
		}
	}
	return nil
}

func (a *alertmanagers) stop() error {
	a.client.close()
	var errs []error
	for _, peer := range a.peers {
		errs = append(errs, peer.Process.Signal(syscall.SIGTERM))
	}
	for _, peer := range a.peers {
		errs = append(errs, peer.Wait())
	}
	return errors.Join(errs...)
}

// freeAddress is an address of the loopback interface that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// listens waits until somebody listens on the address.
func listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("nobody listens on %s: %w", address, err)
		}
	}
}
