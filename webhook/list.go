package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// State is where an incident is in its life.
type State string

// The states.
const (
	StateOpen     State = "open"
	StateResolved State = "resolved"
	// StateStale is that of an incident which nobody has said to be over, but which
	// is not heard of any more.
	StateStale State = "stale"
)

// Filter narrows List. The zero Filter lets all through.
type Filter struct {
	// ID picks one incident.
	ID string
	// State is the state to pick; any when empty.
	State State
	// Pending picks the incidents whose last news has not been worked through.
	Pending bool
	// Undelivered picks the incidents with news that some courier has not
	// delivered.
	Undelivered bool
	// Since picks the incidents opened at or after it.
	Since time.Time
	// Limit is how many are returned at most; 100 when zero.
	Limit int
}

// IncidentRow is one line of a list of incidents. Title, Severity, Receiver and
// Error are untrusted.
type IncidentRow struct {
	ID         string    `json:"id"`
	State      State     `json:"state"`
	Title      string    `json:"title"`
	Severity   string    `json:"severity,omitempty"`
	Receiver   string    `json:"receiver,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	OpenedAt   time.Time `json:"opened_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	// Episode counts how often it was opened.
	Episode int `json:"episode"`
	// Alerts counts the alerts ever heard of, Firing those that fire.
	Alerts int    `json:"alerts"`
	Firing int    `json:"firing"`
	Hidden uint64 `json:"hidden_alerts,omitempty"`
	// Pending says that there is news which has not been worked through, and
	// PendingSince when the oldest of it came; Attempts counts the calls made for it,
	// Error is how the last one failed.
	Pending      bool      `json:"pending"`
	PendingSince time.Time `json:"pending_since,omitzero"`
	Attempts     int       `json:"attempts,omitempty"`
	Error        string    `json:"error,omitempty"`
	// Undelivered lists the couriers that have not delivered the last news.
	Undelivered []DeliveryRow `json:"undelivered,omitempty"`
}

// DeliveryRow is what a courier has not delivered. Error is untrusted.
type DeliveryRow struct {
	Courier string `json:"courier"`
	// Since is when the oldest news came that is not delivered.
	Since time.Time `json:"since"`
	// Attempts counts the calls made for it, Error is how the last one failed.
	Attempts int    `json:"attempts"`
	Error    string `json:"error,omitempty"`
}

// List returns incidents, the latest first.
func (in *Inbox) List(ctx context.Context, f Filter) ([]IncidentRow, error) {
	return list(ctx, in.store.read, f)
}

// List reads incidents, the latest first, from the store at a path or a
// postgres:// URL, which may be in use by running agents.
func List(ctx context.Context, store string, f Filter) (rows []IncidentRow, err error) {
	db, err := openReader(store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err = list(ctx, db, f)
	if err != nil && unused(err) {
		return nil, errors.New("list incidents: the database is not the store of an agent, or none has used it yet")
	}
	return rows, err
}

// unused reports whether err says that the tables are not there.
func unused(err error) bool {
	if told := (*pgconn.PgError)(nil); errors.As(err, &told) {
		return told.Code == "42P01" // undefined_table; a database or role that is not there is another matter
	}
	return strings.Contains(err.Error(), "no such table")
}

func list(ctx context.Context, q queryer, f Filter) ([]IncidentRow, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	var out []IncidentRow
	err := each(ctx, q, func(scan func(...any) error) error {
		var in incident
		var r IncidentRow
		if err := in.scan(func(dest ...any) error { return scan(append(dest, &r.Alerts, &r.Firing)...) }); err != nil {
			return err
		}
		r.ID, r.State, r.Title, r.Severity, r.Receiver = in.id, StateOpen, in.title, in.severity, in.receiver
		r.StartedAt, r.OpenedAt, r.UpdatedAt, r.ResolvedAt = in.startedAt, in.openedAt, in.updatedAt, in.resolvedAt
		r.Episode = in.episode
		r.Hidden, r.Pending, r.Attempts, r.Error = in.hidden, in.worked < in.revision, in.attempts, in.lastError
		if r.Pending {
			r.PendingSince = in.pendingSince
		}
		switch {
		case in.stale:
			r.State = StateStale
		case in.resolved:
			r.State = StateResolved
		}
		out = append(out, r)
		return nil
	}, `SELECT `+incidentColumns+`,
			(SELECT count(*) FROM alerts WHERE incident = id), (SELECT count(*) FROM alerts WHERE incident = id AND firing)
		FROM incidents WHERE ($1 = '' OR id = $1) AND ($2 = '' OR CASE WHEN stale THEN 'stale' ELSE state END = $2) AND (NOT $3 OR worked < revision) AND opened_at >= $4
			AND (NOT $6 OR EXISTS (SELECT 1 FROM deliveries WHERE incident = id AND done < wanted))
		ORDER BY opened_at DESC, rowid DESC LIMIT $5`, f.ID, string(f.State), f.Pending, toStamp(f.Since), f.Limit, f.Undelivered)
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	return out, listUndelivered(ctx, q, out)
}

// listUndelivered fills in what is not delivered of the incidents.
func listUndelivered(ctx context.Context, q queryer, rows []IncidentRow) error {
	byID := make(map[string]*IncidentRow, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	err := each(ctx, q, func(scan func(...any) error) error {
		var id, since string
		var d DeliveryRow
		if err := scan(&id, &d.Courier, &since, &d.Attempts, &d.Error); err != nil {
			return err
		}
		d.Since = fromStamp(since)
		if r := byID[id]; r != nil {
			r.Undelivered = append(r.Undelivered, d)
		}
		return nil
	}, `SELECT incident, courier, since, attempts, error FROM deliveries WHERE done < wanted ORDER BY since, courier`)
	if err != nil {
		return fmt.Errorf("list undelivered: %w", err)
	}
	return nil
}
