package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// Watchdog is about an alert that always fires: when it stops coming, others may
// not come either. The alert itself is no incident; its absence is one, with
// TriggerWatchdog. A nil Watchdog knows no such alert.
type Watchdog struct {
	// Matches tells the alert by its labels.
	Matches func(labels map[string]string) bool
	// Within is how long it may stay away; more than the sender's repeat_interval.
	Within time.Duration
}

// What playbooks.Incident.Trigger says of incidents in the store.
const (
	TriggerAlertmanager = "alertmanager"
	// TriggerWatchdog is that of a broken pipe: nothing need be run for it.
	TriggerWatchdog = "watchdog"
)

// pipeName is the title of the incident of a broken pipe.
const pipeName = "AlertPipeBroken"

// pipeGroup is its group, which no message can have.
func pipeGroup() groupID { return groupID{key: digest("watchdog"), route: digest("watchdog")} }

// is reports whether it is the alert that always fires.
func (w *Watchdog) is(a playbooks.Alert) bool { return w != nil && w.Matches(a.Labels) }

// split takes the alert that always fires out of a message, and reports whether it
// was in there, firing.
func (w *Watchdog) split(m Message) (rest Message, barked bool) {
	if w == nil {
		return m, false
	}
	rest = m
	rest.Alerts = nil
	for _, a := range m.Alerts {
		switch {
		case !w.is(a):
			rest.Alerts = append(rest.Alerts, a)
		case a.Firing:
			barked = true
		}
	}
	return rest, barked
}

// pipe is what the watchdog says of the pipe, as a message: an alert that fires
// since the time, or has ended then.
func (w *Watchdog) pipe(broken bool, at time.Time) *Message {
	labels := map[string]string{"alertname": pipeName, "severity": "critical"}
	a := playbooks.Alert{
		Fingerprint: fingerprint(labels), Firing: broken, Labels: labels,
		Annotations: map[string]string{"summary": fmt.Sprintf("The alert that always fires has not come for %s.", w.Within)},
	}
	if broken {
		a.StartsAt = at
	} else {
		a.EndsAt = at
	}
	return &Message{pipe: true, Alerts: []playbooks.Alert{a}}
}

// bark notes that the alert that always fires has come, and ends the incident of
// its absence.
func (in *Inbox) bark(ctx context.Context) error {
	now := in.opts.Now().UTC()
	var t taken
	err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO barks (id, at) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET at = excluded.at`, toStamp(now)); err != nil {
			return fmt.Errorf("note the watchdog: %w", err)
		}
		var err error
		t, err = in.take(ctx, tx, in.opts.Watchdog.pipe(false, now), now)
		return err
	})
	if err != nil {
		return err
	}
	in.metrics.barked(now)
	in.pipeNews(ctx, t)
	return nil
}

// listen opens the incident of a broken pipe if the alert that always fires has
// not come for too long. What this process could not hear because it did not run
// does not count.
func (in *Inbox) listen(ctx context.Context, running time.Time) error {
	now := in.opts.Now().UTC()
	var t taken
	err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		t = taken{}
		var at string
		if err := tx.QueryRowContext(ctx, `SELECT at FROM barks WHERE id = 1`).Scan(&at); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("look for the watchdog: %w", err)
		}
		last := fromStamp(at)
		in.metrics.barked(last)
		if last.Before(running) {
			last = running
		}
		due := last.Add(in.opts.Watchdog.Within)
		if !now.After(due) {
			return nil
		}
		var err error
		t, err = in.take(ctx, tx, in.opts.Watchdog.pipe(true, due), now)
		return err
	})
	if err != nil {
		return err
	}
	in.pipeNews(ctx, t)
	return nil
}

// pipeNews tells of what became of the pipe.
func (in *Inbox) pipeNews(ctx context.Context, t taken) {
	in.wake(t.queues...)
	for _, o := range t.outcomes {
		if o.Effect != Repeated {
			in.opts.Logger.WarnContext(ctx, "the alert pipe has broken or works again", "incident", o.Incident, "effect", o.Effect)
		}
	}
}

// watch reconciles and listens for the watchdog, now and every minute.
func (in *Inbox) watch(ctx context.Context) {
	r := newReconciler(in, in.opts.Senders)
	running := in.opts.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if len(r.senders) > 0 {
			r.round(ctx)
		}
		if in.opts.Watchdog != nil {
			if err := in.listen(ctx, running); err != nil && ctx.Err() == nil {
				in.opts.Logger.WarnContext(ctx, "the watchdog could not be looked for", "err", loggable(err.Error(), 300))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
