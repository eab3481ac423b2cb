package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// findOpen returns the open incident of the message's group, or nil.
func findOpen(ctx context.Context, tx *sql.Tx, m *Message) (*incident, error) {
	g := m.group()
	in := &incident{}
	err := in.scan(tx.QueryRowContext(ctx, `SELECT `+incidentColumns+` FROM incidents WHERE state = 'open' AND group_key = $1`, g.key).Scan)
	if !errors.Is(err, sql.ErrNoRows) {
		return in, err
	}
	// The route's matchers may have changed in the sender's configuration, and
	// the key with them: the same alert on the same route is the same trouble.
	list, err := json.Marshal(fingerprints(m))
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	err = in.scan(tx.QueryRowContext(ctx, `SELECT `+incidentColumns+` FROM incidents WHERE state = 'open' AND route = $1 AND EXISTS (
		SELECT 1 FROM alerts WHERE incident = id AND firing AND fingerprint IN (SELECT value FROM json_each($2)))
		ORDER BY opened_at LIMIT 1`, g.route, string(list)).Scan)
	if errors.Is(err, sql.ErrNoRows) && m.GroupKey == "" && !m.unnamed() {
		// All that is known of the group is its route.
		err = in.scan(tx.QueryRowContext(ctx, `SELECT `+incidentColumns+` FROM incidents WHERE state = 'open' AND route = $1
			ORDER BY opened_at LIMIT 1`, g.route).Scan)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	in.moved(m)
	return in, err
}

// moved takes over the key by which the sender knows the group now. What a
// reconciliation says has none.
func (in *incident) moved(m *Message) {
	if m.GroupKey != "" {
		in.group.key = m.group().key
	}
}

// findOver returns the latest incident of the message's group that ended after
// since, or nil.
func findOver(ctx context.Context, tx *sql.Tx, m *Message, since time.Time) (*incident, error) {
	g := m.group()
	list, err := json.Marshal(fingerprints(m))
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	in := &incident{}
	err = in.scan(tx.QueryRowContext(ctx, `SELECT `+incidentColumns+` FROM incidents WHERE state = 'resolved' AND route = $1 AND updated_at > $2
		AND (group_key = $3 OR $4 OR EXISTS (SELECT 1 FROM alerts WHERE incident = id AND fingerprint IN (SELECT value FROM json_each($5))))
		ORDER BY updated_at DESC LIMIT 1`, g.route, toStamp(since), g.key, m.GroupKey == "" && !m.unnamed(), string(list)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	in.moved(m)
	return in, err
}

// listIncidents lists the incidents for which the condition holds, the oldest
// first.
func listIncidents(ctx context.Context, q queryer, condition string, args ...any) ([]*incident, error) {
	var list []*incident
	err := each(ctx, q, func(scan func(...any) error) error {
		inc := &incident{}
		list = append(list, inc)
		return inc.scan(scan)
	}, `SELECT `+incidentColumns+` FROM incidents WHERE `+condition+` ORDER BY opened_at`, args...)
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	return list, nil
}
