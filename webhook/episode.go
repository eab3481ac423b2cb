package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// today is what playbooks.Incident.EpisodesToday looks back on.
const today = 24 * time.Hour

// newIncident opens an incident for the message.
func newIncident(m *Message, severity string, now time.Time) *incident {
	g := m.group()
	return &incident{
		id:        incidentID(now),
		group:     g,
		receiver:  storable(receiverName(m.Receiver), 300),
		title:     m.title(),
		severity:  severity,
		startedAt: now,
		openedAt:  now,
		heardAt:   now,
		episode:   1,
	}
}

// reopen begins the next episode of an incident that was over.
func (in *incident) reopen(now time.Time) {
	in.resolved, in.stale, in.resolvedAt = false, false, time.Time{}
	in.episode++
	in.heardAt, in.startedAt = now, now
}

// saveEpisode notes that the trouble has begun once more: that of its route, unless all
// unnamed groups of a receiver have that.
func saveEpisode(ctx context.Context, tx *sql.Tx, inc *incident, m *Message) error {
	trouble := inc.group.route
	if m.unnamed() {
		trouble = inc.group.key
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO episodes (route, at) VALUES ($1, $2)`, trouble, toStamp(inc.heardAt)); err != nil {
		return fmt.Errorf("note episode: %w", err)
	}
	return nil
}

// giveUp ends an incident as stale, unless it was heard of after since.
func (in *Inbox) giveUp(ctx context.Context, id string, since time.Time) (given bool, err error) {
	err = in.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
		given = false
		inc := &incident{}
		err := inc.scan(tx.QueryRowContext(ctx, `SELECT `+incidentColumns+` FROM incidents WHERE state = 'open' AND id = $1`, id).Scan)
		if errors.Is(err, sql.ErrNoRows) || err == nil && inc.updatedAt.After(since) {
			return nil // another agent, or the sender, was faster
		}
		if err != nil {
			return err
		}
		given = true
		return in.lapse(ctx, tx, inc, in.opts.Now().UTC())
	})
	if err != nil {
		return false, fmt.Errorf("give up incident %s: %w", id, err)
	}
	if given {
		in.wakeAll()
	}
	return given, nil
}

// lapse gives up an open incident that is not heard of any more. All queues are to
// be woken after tx.
func (in *Inbox) lapse(ctx context.Context, tx *sql.Tx, inc *incident, now time.Time) error {
	inc.resolved, inc.stale, inc.resolvedAt, inc.hidden = true, true, now, 0
	inc.updatedAt = now
	inc.revise(now)
	if err := inc.save(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE alerts SET firing = FALSE WHERE incident = $1 AND firing`, inc.id); err != nil {
		return fmt.Errorf("close alerts: %w", err)
	}
	if _, err := in.announceNews(ctx, tx, inc.id, nil); err != nil {
		return err
	}
	_, err := in.enqueue(ctx, tx, inc, false)
	return err
}
