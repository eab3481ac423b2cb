package webhook

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// incident is a row of the store.
type incident struct {
	stored     bool
	id         string
	group      groupID
	receiver   string
	resolved   bool
	title      string
	severity   string
	startedAt  time.Time
	openedAt   time.Time
	updatedAt  time.Time
	resolvedAt time.Time
	hidden     uint64
	keptBytes  int64
	revision   int64
	worked     int64
	// pendingSince means nothing when all is worked through.
	pendingSince time.Time
	attempts     int
	lastError    string
	episode      int
	heardAt      time.Time
	stale        bool
}

// incidentColumns are in the order of scan.
const incidentColumns = `id, group_key, route, receiver, state = 'resolved', title, severity, started_at, opened_at, updated_at,
	resolved_at, hidden, kept_bytes, revision, worked, attempts, error, episode, heard_at, stale, pending_since`

// scan reads a row of incidentColumns.
func (in *incident) scan(scan func(...any) error) error {
	var started, opened, updated, resolved, heard, pending string
	err := scan(&in.id, &in.group.key, &in.group.route, &in.receiver, &in.resolved, &in.title, &in.severity, &started, &opened, &updated,
		&resolved, &in.hidden, &in.keptBytes, &in.revision, &in.worked, &in.attempts, &in.lastError,
		&in.episode, &heard, &in.stale, &pending)
	in.startedAt, in.openedAt = fromStamp(started), fromStamp(opened)
	in.updatedAt, in.resolvedAt, in.heardAt = fromStamp(updated), fromStamp(resolved), fromStamp(heard)
	in.pendingSince = fromStamp(cmp.Or(pending, heard))
	in.stored = err == nil
	return err
}

// save writes the row.
func (in *incident) save(ctx context.Context, tx *sql.Tx) error {
	state := StateOpen
	if in.resolved {
		state = StateResolved
	}
	// What may change comes first, so that both statements take it as it stands.
	args := []any{
		in.id, in.group.key, string(state), in.severity, toStamp(in.startedAt), toStamp(in.updatedAt), toStamp(in.resolvedAt),
		in.hidden, in.keptBytes, in.revision, in.episode, toStamp(in.heardAt), in.stale, toStamp(in.pendingSince),
	}
	query := `UPDATE incidents SET group_key = $2, state = $3, severity = $4, started_at = $5, updated_at = $6, resolved_at = $7,
		hidden = $8, kept_bytes = $9, revision = $10, episode = $11, heard_at = $12, stale = $13, pending_since = $14 WHERE id = $1`
	if !in.stored {
		args = append(args, in.group.route, in.receiver, in.title, toStamp(in.openedAt))
		query = `INSERT INTO incidents (id, group_key, state, severity, started_at, updated_at, resolved_at,
			hidden, kept_bytes, revision, episode, heard_at, stale, pending_since, route, receiver, title, opened_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("save incident: %w", err)
	}
	in.stored = true
	return nil
}

// revise counts news.
func (in *incident) revise(now time.Time) {
	if in.worked == in.revision {
		in.pendingSince = now
	}
	in.revision++
}

// waits reports whether there is news and certainly a job for it: nothing of it has
// failed, and failing it may have been given up.
func (in *incident) waits() bool {
	return in.worked < in.revision && in.lastError == "" && in.attempts < maxAttempts
}

// trigger says what has told of the incident.
func (in *incident) trigger() string {
	if in.group.route == pipeGroup().route {
		return TriggerWatchdog
	}
	return TriggerAlertmanager
}

// take brings the row up to date with what fold found out.
func (in *incident) take(m *Message, d delta, now time.Time) {
	in.updatedAt = now
	last := time.Time{}
	for i, a := range m.Alerts {
		if d.fates[i] == fateStale {
			continue
		}
		if !a.StartsAt.IsZero() && a.StartsAt.Before(in.startedAt) && (a.Firing || d.fates[i] == fateResolved) {
			in.startedAt = a.StartsAt
		}
		if a.EndsAt.After(last) {
			last = a.EndsAt
		}
	}
	// Numbers in SQLite are signed.
	hidden := min(m.Hidden, math.MaxInt64-d.untracked) + d.untracked
	if d.closes {
		hidden = 0
		in.resolved = true
		in.resolvedAt = last
		if last.Before(in.startedAt) || last.After(now) {
			in.resolvedAt = now // no end was readable, or the sender's clock is wrong
		}
	}
	if d.news || d.closes || hidden != in.hidden {
		in.revise(now)
	}
	in.hidden = hidden
}

// load returns the incident as the domain knows it, and the revision that this is.
func load(ctx context.Context, q queryer, id string) (playbooks.Incident, *incident, error) {
	in := &incident{}
	if err := in.scan(q.QueryRowContext(ctx, `SELECT `+incidentColumns+` FROM incidents WHERE id = $1`, id).Scan); err != nil {
		return playbooks.Incident{}, nil, fmt.Errorf("read incident %s: %w", id, err)
	}
	alerts, err := keptAlerts(ctx, q, id)
	if err != nil {
		return playbooks.Incident{}, nil, err
	}
	var all, episodes int
	if err := q.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM alerts WHERE incident = $1), (SELECT count(*) FROM episodes WHERE route IN ($2, $3) AND at > $4)`,
		id, in.group.route, in.group.key, toStamp(in.heardAt.Add(-today))).Scan(&all, &episodes); err != nil {
		return playbooks.Incident{}, nil, fmt.Errorf("count alerts: %w", err)
	}
	return playbooks.Incident{
		ID:            in.id,
		Trigger:       in.trigger(),
		Title:         in.title,
		Severity:      in.severity,
		StartedAt:     in.startedAt,
		ResolvedAt:    in.resolvedAt,
		Alerts:        alerts,
		HiddenAlerts:  in.hidden + uint64(all-len(alerts)),
		HeardAt:       in.heardAt,
		Episode:       in.episode,
		EpisodesToday: episodes,
		Stale:         in.stale,
	}, in, nil
}
