package webhook

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/regpath/diagnose/playbooks"
)

// Options are what an Inbox needs. Worker is required; the rest has defaults.
type Options struct {
	// Worker works on incidents.
	Worker Worker
	// Couriers carry what is to be said about incidents, by name; see
	// ValidCourierName.
	Couriers map[string]Courier
	// Audience names the couriers that news of these alerts is for; all of Couriers
	// when nil. Whoever was called for an incident hears of what becomes of it, too.
	Audience func(alerts []playbooks.Alert) []string
	// Followers are couriers as well, with other names: but these are called only
	// when Memo.Put names them.
	Followers map[string]Courier
	// Workers is how many incidents are worked on at a time; 4 when zero. Urgent
	// ones have as many workers of their own, which never wait for the others'.
	Workers int
	// Urgent tells which severities are urgent; Severities("P0", "critical", "page")
	// when nil.
	Urgent func(severity string) bool
	// Reopen is how long after its end an incident is opened again when its
	// trouble comes back; later, that is another incident. 1 hour when zero.
	Reopen time.Duration
	// Silence is how long an open incident may go unheard of before it is given
	// up as stale; 24 hours when zero, and at least the sender's repeat_interval.
	Silence time.Duration
	// Timeout bounds one call of Work; 2 minutes when zero.
	Timeout time.Duration
	// Grace is how long Stop lets running work go on before its context is
	// cancelled; 10 seconds when zero.
	Grace time.Duration
	// Retention is how long resolved incidents are kept; 30 days when zero.
	Retention time.Duration
	// Senders are asked, at the start and every minute, for what fires and was never
	// received, and for what has ended unheard. All that post here must be among
	// them: what none of them knows for some minutes is given up as stale.
	Senders []Sender
	// Watchdog is about the alert that always fires; there is none when nil.
	Watchdog *Watchdog
	// Lease is how long an agent on a shared store may go unheard of before the
	// others take up its jobs; 15 seconds when zero.
	Lease time.Duration
	// Logger takes what an operator should know, River's warnings included;
	// nothing is logged when nil.
	Logger *slog.Logger
	// Registry takes the metrics; they are kept nowhere when nil.
	Registry prometheus.Registerer
	// Now is the clock; time.Now when nil.
	Now func() time.Time

	// pollInterval is how often the queues are looked at unasked; River's default
	// when zero.
	pollInterval time.Duration
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = 4
	}
	if o.Urgent == nil {
		o.Urgent = Severities("P0", "critical", "page")
	}
	if o.Reopen == 0 {
		o.Reopen = time.Hour
	}
	if o.Silence == 0 {
		o.Silence = 24 * time.Hour
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.Retention == 0 {
		o.Retention = 30 * 24 * time.Hour
	}
	if o.Lease == 0 {
		o.Lease = defaultTerm
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
