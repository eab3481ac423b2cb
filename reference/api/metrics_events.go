package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// eventDescs describe how far the events are on their way from the shards to those who want to know.
type eventDescs struct {
	unpublished, oldest, inStream, added, confirmed, relayFailed *prometheus.Desc
	pending, behind                                              *prometheus.Desc
	handled, failed, dead, letters, unexplained                  *prometheus.Desc
}

func newEventDescs(d func(name, help string, labels ...string) *prometheus.Desc) eventDescs {
	return eventDescs{
		unpublished: d("events_unpublished", "Events that some group has not acknowledged.", "shard"),
		oldest:      d("events_oldest_unpublished_age_seconds", "Age of the oldest of them; 0 when there is none.", "shard"),
		inStream:    d("events_in_stream", "Events of the shard that are in Redis.", "shard"),
		added:       d("events_added_total", "Events this instance put into the stream.", "shard"),
		confirmed:   d("events_confirmed_total", "Events this instance took off the outbox, acknowledged by every group.", "shard"),
		relayFailed: d("events_relay_errors_total", "Failed tries to relay.", "shard"),
		pending:     d("events_pending", "Events that the group was given and has not acknowledged.", "shard", "group"),
		behind:      d("events_behind_seconds", "How long the oldest event that the group has not acknowledged has been in the stream.", "shard", "group"),
		handled:     d("events_handled_total", "Events that this instance handled for the group.", "group"),
		failed:      d("events_handler_errors_total", "Failed tries to handle an event.", "group"),
		dead:        d("events_dead_total", "Events given up.", "group"),
		letters:     d("events_dead_letters", "Events on the shard's dead-letter stream, of all groups.", "shard"),
		unexplained: d("events_unexplained_total", "Moves of names that do not follow from their events: the state was changed behind the service."),
	}
}

func (c *collector) collectEvents(s sink) {
	d := c.events
	for _, r := range c.server.service.Relay.Stats() {
		age := 0.0
		if !r.Oldest.IsZero() {
			age = time.Since(r.Oldest).Seconds()
		}
		s.gauge(d.unpublished, float64(r.Unpublished), r.Shard)
		s.gauge(d.oldest, age, r.Shard)
		s.gauge(d.inStream, float64(r.InStream), r.Shard)
		s.counter(d.added, float64(r.Added), r.Shard)
		s.counter(d.confirmed, float64(r.Confirmed), r.Shard)
		s.counter(d.relayFailed, float64(r.Failures), r.Shard)
		s.gauge(d.letters, float64(r.DeadLetters), r.Shard)
		for _, g := range r.Groups {
			s.gauge(d.pending, float64(g.Pending), r.Shard, g.Name)
			s.gauge(d.behind, g.Behind.Seconds(), r.Shard, g.Name)
		}
	}
	for _, x := range c.server.service.Consumers {
		n := x.Stats()
		s.counter(d.handled, float64(n.Handled), n.Group)
		s.counter(d.failed, float64(n.Failed), n.Group)
		s.counter(d.dead, float64(n.Dead), n.Group)
	}
	s.counter(d.unexplained, float64(c.server.service.Audit.Unexplained()))
}
