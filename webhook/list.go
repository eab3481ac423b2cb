package webhook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// State is where an incident is in its life.
type State string

// The states.
const (
	StateOpen     State = "open"
	StateResolved State = "resolved"
)

// Filter narrows List. The zero Filter lets all through.
type Filter struct {
	// ID picks one incident.
	ID string
	// State is StateOpen or StateResolved; both when empty.
	State State
	// Pending picks the incidents whose last news has not been worked through.
	Pending bool
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
	// Alerts counts the alerts ever heard of, Firing those that fire.
	Alerts int    `json:"alerts"`
	Firing int    `json:"firing"`
	Hidden uint64 `json:"hidden_alerts,omitempty"`
	// Pending says that there is news which has not been worked through;
	// Attempts counts the calls made for it, Error is how the last one failed.
	Pending  bool   `json:"pending"`
	Attempts int    `json:"attempts,omitempty"`
	Error    string `json:"error,omitempty"`
}

// List returns incidents, the latest first.
func (in *Inbox) List(ctx context.Context, f Filter) ([]IncidentRow, error) {
	return list(ctx, in.store.read, f)
}

// List reads incidents, the latest first, from the store at path, which may be
// in use by a running agent.
func List(ctx context.Context, path string, f Filter) (rows []IncidentRow, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	db, err := openReader(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return list(ctx, db, f)
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
		r.Hidden, r.Pending, r.Attempts, r.Error = in.hidden, in.worked < in.revision, in.attempts, in.lastError
		if in.resolved {
			r.State = StateResolved
		}
		out = append(out, r)
		return nil
	}, `SELECT `+incidentColumns+`,
			(SELECT count(*) FROM alerts WHERE incident = id), (SELECT count(*) FROM alerts WHERE incident = id AND firing)
		FROM incidents WHERE (?1 = '' OR id = ?1) AND (?2 = '' OR state = ?2) AND (NOT ?3 OR worked < revision) AND opened_at >= ?4
		ORDER BY opened_at DESC, rowid DESC LIMIT ?5`, f.ID, string(f.State), f.Pending, toStamp(f.Since), f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	return out, nil
}
