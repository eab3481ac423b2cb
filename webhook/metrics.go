package webhook

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the intake's own figures.
type metrics struct {
	received     prometheus.Counter
	accepted     prometheus.Counter
	refused      *prometheus.CounterVec
	alerts       *prometheus.CounterVec
	spoilt       prometheus.Counter
	bodyBytes    prometheus.Histogram
	storeSeconds prometheus.Histogram
	incidents    *prometheus.CounterVec
	runSeconds   *prometheus.HistogramVec
	deliveries   *prometheus.CounterVec
	lagSeconds   *prometheus.HistogramVec
	questions    *prometheus.CounterVec
	reconciled   *prometheus.CounterVec
	lastBark     prometheus.Gauge
	all          []prometheus.Collector
}

// newMetrics registers the metrics, those of the backlog among them.
func newMetrics(reg prometheus.Registerer, backlog prometheus.Collector) (*metrics, error) {
	m := &metrics{
		received: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "diagnose_webhook_received_total", Help: "Requests that reached the webhook.",
		}),
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "diagnose_webhook_accepted_total", Help: "Requests answered 2xx: stored, or nothing to do.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "diagnose_webhook_refused_total", Help: "Requests not answered 2xx, by reason.",
		}, []string{"reason"}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "diagnose_webhook_alerts_total",
			Help: "Alerts taken in, by what they meant: new, repeated, resolved, stale (older than what is known), unheard (resolved, but never heard firing), unknown (neither firing nor resolved).",
		}, []string{"meaning"}),
		spoilt: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "diagnose_webhook_spoilt_fields_total", Help: "Fields that could not be read and were left empty.",
		}),
		bodyBytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "diagnose_webhook_body_bytes", Help: "Sizes of the bodies read.", Buckets: prometheus.ExponentialBuckets(512, 4, 9),
		}),
		storeSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "diagnose_webhook_store_seconds", Help: "Time to make a message durable, failures included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		incidents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "diagnose_incident_messages_total", Help: "Messages about an incident, by effect: opened, updated, repeated, resolved, reopened.",
		}, []string{"effect"}),
		runSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "diagnose_incident_run_seconds", Help: "Time of the work on an incident, by outcome: ok, failed, interrupted.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"outcome"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "diagnose_deliveries_total",
			Help: "Attempts to bring a sink up to date, by outcome: delivered, failed (will be repeated), undeliverable (kept until there is news or a restart).",
		}, []string{"sink", "outcome"}),
		lagSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "diagnose_delivery_lag_seconds", Help: "Time from news to its delivery, by sink.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
		}, []string{"sink"}),
		questions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "diagnose_alertmanager_questions_total",
			Help: "Questions to each Alertmanager what fires, by its place in the configuration and by outcome: ok, failed (no answer, or none that makes sense).",
		}, []string{"alertmanager", "outcome"}),
		reconciled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "diagnose_incidents_reconciled_total",
			Help: "Incidents changed by what an Alertmanager said when asked: unreceived (fires, but was never received), ended (given up, as nobody knows of it any more).",
		}, []string{"what"}),
		lastBark: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "diagnose_watchdog_last_received_timestamp_seconds", Help: "When the alert that always fires came last, in Unix time; 0 when it never has.",
		}),
	}
	m.all = []prometheus.Collector{
		m.received, m.accepted, m.refused, m.alerts, m.spoilt, m.bodyBytes, m.storeSeconds, m.incidents, m.runSeconds,
		m.deliveries, m.lagSeconds, m.questions, m.reconciled, m.lastBark, backlog,
	}
	for i, c := range m.all {
		if err := reg.Register(c); err != nil {
			for _, done := range m.all[:i] {
				reg.Unregister(done)
			}
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// unregister takes the metrics back, so that the store can be opened again.
func (m *metrics) unregister(reg prometheus.Registerer) {
	for _, c := range m.all {
		reg.Unregister(c)
	}
}

// taken counts a stored message.
func (m *metrics) taken(outcomes []Outcome, fates []fate) {
	for _, o := range outcomes {
		m.incidents.WithLabelValues(string(o.Effect)).Inc()
	}
	for _, f := range fates {
		m.alerts.WithLabelValues(string(f)).Inc()
	}
}

// run counts a run.
func (m *metrics) run(outcome string, took time.Duration) {
	m.runSeconds.WithLabelValues(outcome).Observe(took.Seconds())
}

// delivered counts a delivery and how long the news had waited for it.
func (m *metrics) delivered(courier string, lag time.Duration) {
	m.deliveries.WithLabelValues(courier, "delivered").Inc()
	m.lagSeconds.WithLabelValues(courier).Observe(lag.Seconds())
}

// undelivered counts an attempt in vain.
func (m *metrics) undelivered(courier, outcome string) {
	m.deliveries.WithLabelValues(courier, outcome).Inc()
}

// asked counts a question to the sender in that place.
func (m *metrics) asked(sender int, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.questions.WithLabelValues(strconv.Itoa(sender), outcome).Inc()
}

// barked notes when the alert that always fires came last.
func (m *metrics) barked(at time.Time) {
	if !at.IsZero() {
		m.lastBark.Set(float64(at.UnixNano()) / float64(time.Second))
	}
}
