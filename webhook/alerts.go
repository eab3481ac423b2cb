package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// Bounds on what is kept of an incident's alerts. An alert beyond them is
// tracked by its fingerprint only; one beyond maxTracked is just counted.
const (
	maxTracked    = 20_000  // alerts
	maxKept       = 500     // alerts with labels and annotations
	maxKeptBytes  = 4 << 20 // all labels and annotations of an incident
	maxAlertBytes = 256 << 10
	maxValueBytes = 32 << 10
)

// alertBody is what is kept of an alert beside its times.
type alertBody struct {
	Labels       map[string]string `json:"l,omitempty"`
	Annotations  map[string]string `json:"a,omitempty"`
	GeneratorURL string            `json:"u,omitempty"`
}

// newAlertBody takes over as much as the bounds allow: labels first, each in
// the order of names, so that the same alert always comes out the same.
func newAlertBody(a playbooks.Alert) alertBody {
	room := maxAlertBytes
	take := func(from map[string]string) map[string]string {
		to := make(map[string]string, len(from))
		for _, k := range slices.Sorted(maps.Keys(from)) {
			v := clip(from[k], maxValueBytes)
			if room -= len(k) + len(v); room < 0 {
				break
			}
			to[k] = v
		}
		return to
	}
	return alertBody{Labels: take(a.Labels), Annotations: take(a.Annotations), GeneratorURL: clip(a.GeneratorURL, maxValueBytes)}
}

// known loads what is known of an incident's alerts, for a message.
func known(ctx context.Context, tx *sql.Tx, incident string, m *Message) (*roll, error) {
	r := &roll{named: map[string]sighting{}}
	list, err := json.Marshal(fingerprints(m))
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	err = each(ctx, tx, func(scan func(...any) error) error {
		var fp, starts, ends string
		var s sighting
		var all, firing, kept int
		err := scan(&fp, &s.firing, &starts, &ends, &s.kept, &all, &firing, &kept)
		if fp == "" { // the row of the counts
			r.others, r.othersFiring, r.othersKept = all, firing, kept
			return err
		}
		s.starts, s.ends = fromStamp(starts), fromStamp(ends)
		r.named[fp] = s
		return err
	}, `SELECT fingerprint, firing, starts_at, ends_at, body IS NOT NULL, 0, 0, 0 FROM alerts
			WHERE incident = $1 AND fingerprint IN (SELECT value FROM json_each($2))
		UNION ALL SELECT '', FALSE, '', '', FALSE, count(*), count(*) FILTER (WHERE firing), count(body) FROM alerts WHERE incident = $1`,
		incident, string(list))
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	for _, s := range r.named {
		r.others--
		if s.firing {
			r.othersFiring--
		}
		if s.kept {
			r.othersKept--
		}
	}
	return r, nil
}

// ends loads the latest known ends of a message's alerts.
func ends(ctx context.Context, tx *sql.Tx, m *Message) (map[string]ending, error) {
	list, err := json.Marshal(fingerprints(m))
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	ended := map[string]ending{}
	err = each(ctx, tx, func(scan func(...any) error) error {
		var fp, end, heard string
		err := scan(&fp, &end, &heard)
		ended[fp] = ending{fromStamp(end), fromStamp(heard)}
		return err
	}, `SELECT fingerprint, ends_at, seen_at FROM ended WHERE fingerprint IN (SELECT value FROM json_each($1))`, string(list))
	if err != nil {
		return nil, fmt.Errorf("read ends: %w", err)
	}
	return ended, nil
}

// fingerprints lists the message's alerts.
func fingerprints(m *Message) []string {
	list := make([]string, len(m.Alerts))
	for i, a := range m.Alerts {
		list[i] = a.Fingerprint
	}
	return list
}

// saveEnds stores the ends that m has told.
func saveEnds(ctx context.Context, tx *sql.Tx, m *Message, ended map[string]ending, now time.Time) error {
	var rows [][]any
	saved := map[string]bool{} // an alert may be in the message twice
	for _, a := range m.Alerts {
		end, ok := ended[a.Fingerprint]
		if a.Firing || !ok || saved[a.Fingerprint] {
			continue
		}
		saved[a.Fingerprint] = true
		rows = append(rows, []any{a.Fingerprint, toStamp(end.at), toStamp(now)})
	}
	return insert(ctx, tx, "ended", "fingerprint, ends_at, seen_at",
		`ON CONFLICT (fingerprint) DO UPDATE SET ends_at = excluded.ends_at, seen_at = excluded.seen_at WHERE ended.ends_at < excluded.ends_at`, rows)
}

// alertRows spells the sightings that changed, within the bounds, for saveAlerts;
// what is kept of them is counted in the incident.
func alertRows(in *incident, m *Message, known *roll, d delta) ([][]any, error) {
	kept := known.kept()
	var rows [][]any
	// In the order of the message: which bodies are kept must not be chance.
	for i, a := range m.Alerts {
		if j, ok := d.touched[a.Fingerprint]; !ok || j != i {
			continue
		}
		s := known.named[a.Fingerprint]
		var body []byte
		if s.kept || kept < maxKept && in.keptBytes < maxKeptBytes {
			var err error
			if body, err = json.Marshal(newAlertBody(a)); err != nil {
				return nil, fmt.Errorf("spell alert: %w", err)
			}
			if !s.kept {
				kept++
				in.keptBytes += int64(len(body))
			}
		}
		rows = append(rows, []any{in.id, a.Fingerprint, s.firing, toStamp(s.starts), toStamp(s.ends), body})
	}
	return rows, nil
}

// saveAlerts stores what alertRows has spelt.
func saveAlerts(ctx context.Context, tx *sql.Tx, rows [][]any) error {
	return insert(ctx, tx, "alerts", "incident, fingerprint, firing, starts_at, ends_at, body", `ON CONFLICT (incident, fingerprint) DO UPDATE
		SET firing = excluded.firing, starts_at = excluded.starts_at, ends_at = excluded.ends_at, body = coalesce(excluded.body, alerts.body)
		WHERE alerts.firing <> excluded.firing OR alerts.starts_at <> excluded.starts_at OR alerts.ends_at <> excluded.ends_at
			OR alerts.body IS DISTINCT FROM coalesce(excluded.body, alerts.body)`, rows)
}

// keptAlerts loads the alerts that have a body, firing ones first.
func keptAlerts(ctx context.Context, q queryer, incident string) ([]playbooks.Alert, error) {
	var list []playbooks.Alert
	err := each(ctx, q, func(scan func(...any) error) error {
		var a playbooks.Alert
		var starts, ends string
		var raw []byte
		if err := scan(&a.Fingerprint, &a.Firing, &starts, &ends, &raw); err != nil {
			return err
		}
		var body alertBody
		if err := json.Unmarshal(raw, &body); err != nil {
			return err
		}
		a.Labels, a.Annotations, a.GeneratorURL = body.Labels, body.Annotations, body.GeneratorURL
		a.StartsAt, a.EndsAt = fromStamp(starts), fromStamp(ends)
		list = append(list, a)
		return nil
	}, `SELECT fingerprint, firing, starts_at, ends_at, body FROM alerts
		WHERE incident = $1 AND body IS NOT NULL ORDER BY firing DESC, fingerprint`, incident)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	return list, nil
}
