package webhook

import (
	"context"
	"database/sql"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// backlog tells at each scrape what is in the store, and how long it has waited. A
// series that cannot be read is missing, never zero.
type backlog struct {
	store    *sql.DB
	couriers []string
	now      func() time.Time

	incidents, pending, oldestPending, undelivered, oldestUndelivered *prometheus.Desc
}

var _ prometheus.Collector = (*backlog)(nil)

func newBacklog(store *sql.DB, couriers []string, now func() time.Time) *backlog {
	return &backlog{
		store: store, couriers: couriers, now: now,
		incidents: prometheus.NewDesc("diagnose_incidents", "Incidents in the store, by state: open, resolved, stale.", []string{"state"}, nil),
		pending:   prometheus.NewDesc("diagnose_incidents_pending", "Incidents with news that has not been worked through.", nil, nil),
		oldestPending: prometheus.NewDesc("diagnose_incident_queue_age_seconds",
			"Time that the oldest news has waited for its work to end; 0 when none waits.", nil, nil),
		undelivered: prometheus.NewDesc("diagnose_deliveries_open", "Incidents with news that a sink has not been told.", []string{"sink"}, nil),
		oldestUndelivered: prometheus.NewDesc("diagnose_delivery_queue_age_seconds",
			"Time that the oldest news has waited to be told to a sink; 0 when none waits.", []string{"sink"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (b *backlog) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{b.incidents, b.pending, b.oldestPending, b.undelivered, b.oldestUndelivered} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (b *backlog) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, part := range []struct {
		desc *prometheus.Desc
		read func(context.Context, chan<- prometheus.Metric) error
	}{{b.incidents, b.states}, {b.pending, b.work}, {b.undelivered, b.deliveries}} {
		if err := part.read(ctx, ch); err != nil {
			ch <- prometheus.NewInvalidMetric(part.desc, err)
		}
	}
}

// states counts the incidents.
func (b *backlog) states(ctx context.Context, ch chan<- prometheus.Metric) error {
	counts := map[State]int{StateOpen: 0, StateResolved: 0, StateStale: 0}
	if err := each(ctx, b.store, func(scan func(...any) error) error {
		var state State
		var n int
		err := scan(&state, &n)
		counts[state] = n
		return err
	}, `SELECT CASE WHEN stale THEN 'stale' ELSE state END, count(*) FROM incidents GROUP BY 1`); err != nil {
		return err
	}
	for state, n := range counts {
		ch <- prometheus.MustNewConstMetric(b.incidents, prometheus.GaugeValue, float64(n), string(state))
	}
	return nil
}

// work looks at what waits for the Worker, be it tried again or given up.
func (b *backlog) work(ctx context.Context, ch chan<- prometheus.Metric) error {
	var n, age float64
	var since string
	if err := b.store.QueryRowContext(ctx, `SELECT count(*), coalesce(min(CASE WHEN pending_since = '' THEN heard_at ELSE pending_since END), '')
		FROM incidents WHERE worked < revision`).Scan(&n, &since); err != nil {
		return err
	}
	if n > 0 {
		age = b.age(fromStamp(since))
	}
	ch <- prometheus.MustNewConstMetric(b.pending, prometheus.GaugeValue, n)
	ch <- prometheus.MustNewConstMetric(b.oldestPending, prometheus.GaugeValue, age)
	return nil
}

// deliveries looks at what waits for each courier.
func (b *backlog) deliveries(ctx context.Context, ch chan<- prometheus.Metric) error {
	type queue struct{ n, age float64 }
	queues := map[string]queue{}
	for _, courier := range b.couriers {
		queues[courier] = queue{}
	}
	if err := each(ctx, b.store, func(scan func(...any) error) error {
		var courier, since string
		var q queue
		err := scan(&courier, &q.n, &since)
		q.age = b.age(fromStamp(since))
		queues[courier] = q
		return err
	}, `SELECT courier, count(*), min(since) FROM deliveries WHERE done < wanted GROUP BY courier`); err != nil {
		return err
	}
	for courier, q := range queues {
		ch <- prometheus.MustNewConstMetric(b.undelivered, prometheus.GaugeValue, q.n, courier)
		ch <- prometheus.MustNewConstMetric(b.oldestUndelivered, prometheus.GaugeValue, q.age, courier)
	}
	return nil
}

// age is in seconds, and never negative.
func (b *backlog) age(since time.Time) float64 { return max(b.now().Sub(since).Seconds(), 0) }
