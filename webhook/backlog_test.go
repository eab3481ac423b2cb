package webhook

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
