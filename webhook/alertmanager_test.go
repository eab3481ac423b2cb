package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAlertmanager lets a real Alertmanager post: an alert fires, is repeated,
// is joined by another, and both resolve.
func TestAlertmanager(t *testing.T) {
	t.Parallel()
	w := &fakeWorker{}
	in := openInbox(t, Options{Worker: w, Now: time.Now})
	start(t, in)
	srv := httptest.NewServer(Handler(in, HandlerOptions{Tokens: []string{"secret-token"}}))
	defer srv.Close()
	api := startAlertmanager(t, srv.URL+"/alertmanager")

	begun := time.Now().Add(-time.Minute).UTC()
	alert := func(instance string, ends time.Time) string {
		s := fmt.Sprintf(`{"labels":{"alertname":"CheckSlow","severity":"P0","instance":%q},"annotations":{"summary":"slow"},"startsAt":%q`,
			instance, begun.Format(time.RFC3339Nano))
		if !ends.IsZero() {
			s += fmt.Sprintf(`,"endsAt":%q`, ends.Format(time.RFC3339Nano))
		}
		return s + "}"
	}
	send(t, api, alert("a", time.Time{}))
	eventually(t, "the alert is taken in", func() bool { return len(incidents(t, in)) == 1 })
	r := onlyIncident(t, in)
	if r.Title != "CheckSlow" || r.Severity != "P0" || r.Receiver != "on.call" || !r.StartedAt.Equal(begun) {
		t.Errorf("got %+v, want CheckSlow P0 on.call since %s", r, begun)
	}
	settle(t, in)
	send(t, api, alert("b", time.Time{}))
	eventually(t, "the second alert joins", func() bool { return onlyIncident(t, in).Firing == 2 })
	eventually(t, "Alertmanager repeats", func() bool {
		return counted(t, in, "diagnose_incident_messages_total", "repeated") > 0
	})
	settle(t, in)
	if got := len(w.all()); got != 2 {
		t.Errorf("got %d runs, want 2", got)
	}
	end := time.Now().UTC()
	send(t, api, alert("a", end), alert("b", end))
	eventually(t, "the incident is resolved", func() bool { return onlyIncident(t, in).State == StateResolved })
	settle(t, in)
	last := w.all()[len(w.all())-1].in
	if !last.ResolvedAt.Equal(end) || len(last.Alerts) != 2 || last.ID != r.ID {
		t.Errorf("got %+v, want %s resolved at %s with 2 alerts", last, r.ID, end)
	}
}

// startAlertmanager runs Debian's Alertmanager, which posts to url, and returns
// the address of its API.
func startAlertmanager(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`
route: {receiver: on.call, group_by: [alertname], group_wait: 100ms, group_interval: 500ms, repeat_interval: 1s}
receivers:
  - name: on.call
    webhook_configs:
      - {url: %q, http_config: {follow_redirects: false, authorization: {credentials: secret-token}}}
`, url)
	file := filepath.Join(dir, "am.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// Debian's package calls it prometheus-alertmanager.
	cmd := exec.CommandContext(context.Background(), "prometheus-alertmanager", "--config.file="+file, "--storage.path="+dir,
		"--web.listen-address=127.0.0.1:0", "--cluster.listen-address=")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Alertmanager: %v (Debian: apt-get install prometheus-alertmanager)", err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Logf("Alertmanager ended: %v", err)
		}
	})
	addr := listensOn(t, log)
	eventually(t, "Alertmanager is ready", func() bool {
		code, err := fetch(t, http.MethodGet, "http://"+addr+"/-/ready", "")
		return err == nil && code == http.StatusOK
	})
	return "http://" + addr + "/api/v2/alerts"
}

// listensOn reads from Alertmanager's log which port it has been given, and
// passes the log on.
func listensOn(t *testing.T, log io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		t.Log(lines.Text())
		if _, addr, ok := strings.Cut(lines.Text(), `msg="Listening on" address=`); ok {
			go func() { _, _ = io.Copy(io.Discard, log) }() // or it would wait for us
			return addr
		}
	}
	t.Fatalf("Alertmanager ended before it listened: %v", lines.Err())
	return ""
}

// send posts alerts to Alertmanager's API.
func send(t *testing.T, api string, alerts ...string) {
	t.Helper()
	if code, err := fetch(t, http.MethodPost, api, "["+strings.Join(alerts, ",")+"]"); err != nil || code != http.StatusOK {
		t.Fatalf("send alerts: got %d, %v", code, err)
	}
}
