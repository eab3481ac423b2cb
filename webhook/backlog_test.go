package webhook

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestBacklogGivenUp: what is tried no more waits as well, and is as old as it is.
func TestBacklogGivenUp(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	path := newStore(t)
	opts := Options{Now: func() time.Time { return noon().Add(time.Duration(later.Load())) }, Couriers: map[string]Courier{"chat": &fakeCourier{}}}
	in := openInboxAt(t, path, opts)
	wants := func(in *Inbox, age time.Duration) {
		t.Helper()
		for name, label := range map[string]string{"diagnose_incident_queue_age_seconds": "", "diagnose_delivery_queue_age_seconds": "chat"} {
			if got := counted(t, in, name, label); got != age.Seconds() {
				t.Errorf("%s: got %v, want %v", name, got, age.Seconds())
			}
		}
	}
	post(t, newHandler(in), message("g", nil, firing("a", 5)))
	if _, err := in.store.write.ExecContext(t.Context(), `UPDATE river_job SET state = 'discarded', finalized_at = CURRENT_TIMESTAMP`); err != nil {
		t.Fatal(err)
	}
	later.Store(int64(time.Hour))
	wants(in, time.Hour)
	if since := onlyIncident(t, in).PendingSince; !since.Equal(noon()) {
		t.Errorf("listed as pending since %s, want noon", since)
	}
	post(t, newHandler(in), message("g", nil, firing("a", 5), firing("b", 5))) // younger news
	stop(t, in)
	later.Store(int64(2 * time.Hour))
	in = openInboxAt(t, path, opts) // which has another try
	wants(in, 2*time.Hour)
	start(t, in)
	settle(t, in)
	delivered(t, in)
	wants(in, 0)
	if since := onlyIncident(t, in).PendingSince; !since.IsZero() {
		t.Errorf("listed as pending since %s, want not pending", since)
	}
}

// TestBacklog: the metrics tell what waits and since when; what does not wait is
// zero, and not missing.
func TestBacklog(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	in := openInbox(t, Options{Now: now, Couriers: map[string]Courier{"chat": &fakeCourier{}}, Followers: map[string]Courier{"chat-details": &fakeCourier{}}})
	h := newHandler(in)
	wants := func(name, label string, low, high float64) {
		t.Helper()
		if got := counted(t, in, name, label); got < low || got > high {
			t.Errorf("%s %s: got %v, want %v to %v", name, label, got, low, high)
		}
	}
	post(t, h, message("g", nil, firing("a", 5)))
	post(t, h, message("h", nil, firing("b", 5)))
	later.Store(int64(time.Hour))
	wants("diagnose_incidents", "open", 2, 2)
	wants("diagnose_incidents", "resolved", 0, 0)
	wants("diagnose_incidents_pending", "", 2, 2)
	wants("diagnose_incident_queue_age_seconds", "", 3599, 7000)
	wants("diagnose_deliveries_open", "chat", 2, 2)
	wants("diagnose_delivery_queue_age_seconds", "chat", 3599, 7000)
	wants("diagnose_delivery_queue_age_seconds", "chat-details", 0, 0)
	start(t, in)
	settle(t, in)
	delivered(t, in)
	wants("diagnose_incidents_pending", "", 0, 0)
	wants("diagnose_incident_queue_age_seconds", "", 0, 0)
	wants("diagnose_deliveries_open", "chat", 0, 0)
	wants("diagnose_delivery_queue_age_seconds", "chat", 0, 0)
	post(t, h, message("g", nil, resolved("a", 5, 1)))
	wants("diagnose_incidents", "open", 1, 1)
	wants("diagnose_incidents", "resolved", 1, 1)
	wants("diagnose_incidents", "stale", 0, 0)
	families, err := in.opts.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "diagnose_incidents" && len(f.GetMetric()) != 3 {
			t.Errorf("got %d states, want 3: zero is not missing", len(f.GetMetric()))
		}
	}
}
