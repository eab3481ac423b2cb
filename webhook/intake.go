package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Effect is what a message did to an incident.
type Effect string

// The effects.
const (
	Opened   Effect = "opened"   // a new incident
	Updated  Effect = "updated"  // there is news
	Repeated Effect = "repeated" // nothing new
	Closed   Effect = "resolved" // it is over
	Reopened Effect = "reopened" // it was over, and has begun again
)

// Outcome is what became of a message.
type Outcome struct {
	Incident string `json:"id"`
	Effect   Effect `json:"effect"`
}

// Store takes a message in. When it returns nil, what the message says and the
// job to work on it are durable; when it returns an error, nothing of it is, and
// the sender must repeat it. Without an outcome the message was about nothing:
// it had no alerts, or only old news. Storing a message again does nothing.
func (in *Inbox) Store(ctx context.Context, m Message) ([]Outcome, error) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.stopped {
		return nil, ErrStopped
	}
	m, barked := in.opts.Watchdog.split(m)
	if len(m.Alerts) == 0 && !barked {
		return nil, nil
	}
	if in.store.committer.behind() {
		return nil, ErrBehind
	}
	if barked {
		if err := in.bark(ctx); err != nil {
			return nil, fmt.Errorf("store message: %w", err)
		}
	}
	if len(m.Alerts) == 0 {
		return nil, nil
	}
	begun := time.Now()
	var t taken
	err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var err error
		t, err = in.take(ctx, tx, &m, in.opts.Now().UTC())
		return err
	})
	in.metrics.storeSeconds.Observe(time.Since(begun).Seconds())
	if err != nil {
		return nil, fmt.Errorf("store message: %w", err)
	}
	in.metrics.taken(t.outcomes, t.fates)
	in.wake(t.queues...)
	return t.outcomes, nil
}

// taken is what became of a message.
type taken struct {
	outcomes []Outcome
	fates    []fate
	// queues are those with a new job.
	queues []string
}

// take is Store within a transaction.
func (in *Inbox) take(ctx context.Context, tx *sql.Tx, m *Message, now time.Time) (taken, error) {
	inc, err := findOpen(ctx, tx, m)
	if err == nil && inc == nil {
		inc, err = findOver(ctx, tx, m, now.Add(-in.opts.Reopen))
	}
	if err != nil {
		return taken{}, fmt.Errorf("find incident: %w", err)
	}
	alerts := &roll{named: map[string]sighting{}}
	if inc != nil {
		if alerts, err = known(ctx, tx, inc.id, m); err != nil {
			return taken{}, err
		}
		if inc.resolved && alerts.size() >= maxTracked { // another episode would have no room
			inc, alerts = nil, &roll{named: map[string]sighting{}}
		}
	}
	ended, err := ends(ctx, tx, m)
	if err != nil {
		return taken{}, err
	}
	d := fold(m, alerts, ended, now, maxTracked)
	if err := saveEnds(ctx, tx, m, ended, now); err != nil {
		return taken{}, err
	}
	severity := m.severity(in.opts.Urgent)
	t := taken{fates: d.fates}
	effect := Repeated
	switch over := inc == nil || inc.resolved; {
	case over && !alerts.fires(), !d.current:
		return t, nil // nothing fires and nothing did, or all of it is old
	case inc == nil:
		inc, effect = newIncident(m, severity, now), Opened
	case over:
		inc.reopen(now)
		effect = Reopened
	}
	before := *inc
	inc.take(m, d, now)
	raised := inc.raise(severity, in.opts.Urgent)
	switch {
	case d.closes:
		effect = Closed
	case effect == Repeated && inc.revision > before.revision:
		effect = Updated
	}
	if err := in.save(ctx, tx, inc, m, alerts, d); err != nil {
		return taken{}, err
	}
	if effect == Opened || effect == Reopened {
		if err := saveEpisode(ctx, tx, inc, m); err != nil {
			return taken{}, err
		}
	}
	t.outcomes = []Outcome{{Incident: inc.id, Effect: effect}}
	switch news := inc.revision > before.revision; {
	case news:
		if t.queues, err = in.announceNews(ctx, tx, inc.id, m.Alerts); err != nil {
			return taken{}, err
		}
		if before.waits() && !raised {
			return t, nil // for a job that will see this, too
		}
	case inc.worked == inc.revision || inc.attempts < maxAttempts:
		return t, nil
	}
	// There is news, or a repetition of what has been given up.
	queues, err := in.enqueue(ctx, tx, inc, raised)
	t.queues = append(t.queues, queues...)
	return t, err
}

// save writes the incident and its alerts.
func (in *Inbox) save(ctx context.Context, tx *sql.Tx, inc *incident, m *Message, alerts *roll, d delta) error {
	rows, err := alertRows(inc, m, alerts, d)
	if err != nil {
		return err
	}
	if err := inc.save(ctx, tx); err != nil {
		return err
	}
	if err := saveAlerts(ctx, tx, rows); err != nil {
		return err
	}
	if d.closes {
		if _, err := tx.ExecContext(ctx, `UPDATE alerts SET firing = FALSE WHERE incident = $1 AND firing`, inc.id); err != nil {
			return fmt.Errorf("close alerts: %w", err)
		}
	}
	return nil
}
