package webhook

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/regpath/diagnose/playbooks"
)

// TestWatchdog: the alert that always fires is no incident; its absence is one,
// said once, ended when it comes, and opened again when it stays away again.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	const within = 10 * time.Minute
	var c clock
	var last atomic.Value
	chat := &fakeCourier{do: func(_ context.Context, in playbooks.Incident, _ Memo) error {
		last.Store(in)
		return nil
	}}
	in := openInbox(t, Options{Now: c.now, Couriers: map[string]Courier{"chat": chat}, Registry: prometheus.NewRegistry(), Watchdog: &Watchdog{
		Matches: func(l map[string]string) bool { return l["instance"] == "watchdog" }, Within: within,
	}})
	start(t, in) // which listens at the real clock's pace: once
	running := c.now()
	h := newHandler(in)
	listen := func() {
		t.Helper()
		if err := in.listen(t.Context(), running); err != nil {
			t.Fatal(err)
		}
	}
	bark := func(effects int, alerts ...alertSpec) {
		t.Helper()
		if code, got := post(t, h, message("w", nil, append(alerts, firing("watchdog", 60))...)); code != http.StatusOK || len(got) != effects {
			t.Errorf("got %d %v, want 200 and %d effects", code, got, effects)
		}
	}
	broken := func(want int) {
		t.Helper()
		if got := len(incidents(t, in)); got != want {
			t.Errorf("got %d incidents, want %d", got, want)
		}
	}

	c.pass(within)
	listen()
	broken(0) // the process runs no longer than that
	bark(0)
	c.pass(within)
	listen()
	broken(0)
	post(t, h, message("w", nil, resolved("watchdog", 60, 1))) // is no sign of life
	c.pass(time.Second)
	listen()
	c.pass(time.Minute)
	listen()
	first := onlyIncident(t, in)
	if first.Title != pipeName || first.State != StateOpen {
		t.Errorf("got %+v, want a broken pipe", first)
	}
	delivered(t, in)
	said, ok := last.Load().(playbooks.Incident)
	if !ok || said.Trigger != TriggerWatchdog || len(said.Alerts) != 1 || !said.ResolvedAt.IsZero() || chat.count() != 1 {
		t.Errorf("got %+v carried %d times, want it carried once, with its trigger", said, chat.count())
	}

	bark(1, firing("a", 5)) // among others, which go their own way
	rows := incidents(t, in)
	if len(rows) != 2 || rows[0].State != StateResolved || rows[1].Title != "w" || rows[1].Alerts != 1 {
		t.Errorf("got %+v, want the pipe to work and one incident of a", rows)
	}
	if got := counted(t, in, "diagnose_watchdog_last_received_timestamp_seconds", ""); got != float64(c.now().Unix()) {
		t.Errorf("last received: got %v, want %v", got, c.now().Unix())
	}
	c.pass(within + time.Second)
	listen()
	if rows := incidents(t, in); rows[0].ID != first.ID || rows[0].State != StateOpen || rows[0].Episode != 2 {
		t.Errorf("got %+v, want %s opened again", rows[0], first.ID)
	}
}

// TestNoWatchdog: without one, such an alert is as any other.
func TestNoWatchdog(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	post(t, newHandler(in), message("w", nil, firing("watchdog", 60)))
	if got := onlyIncident(t, in); got.Title != "w" {
		t.Errorf("got %+v, want an incident", got)
	}
}
