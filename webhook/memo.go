package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Memo is what a Worker remembers about one incident, over retries, news and
// restarts. It lives as long as the incident.
type Memo interface {
	// Get returns what Put kept under key; false if nothing was.
	Get(ctx context.Context, key string) ([]byte, bool, error)
	// Put keeps value durably under key, in place of what was there, and has the
	// couriers named, if any, carry the incident once more: both or neither, so that
	// what is kept is told, whenever the process dies. It does so even when ctx has
	// ended, within lastWords: a receipt for what has already happened outside must
	// not be lost to a shutdown or a timeout.
	Put(ctx context.Context, key string, value []byte, couriers ...string) error
	// Attempt is 1 when this is the first call for the news at hand. It is
	// higher when an earlier call has failed or was cut off by a crash or a
	// stop: it may have had effects that no memo tells of.
	Attempt() int
}

// Memo is what is remembered about an incident, for those who are neither its
// Worker nor a Courier: keys of theirs must not be written to. Its Attempt is 0.
func (in *Inbox) Memo(incident string) Memo { return &memo{inbox: in, incident: incident} }

// Amend puts in place of what is kept of an incident under key, nil if nothing is, what
// amend makes of it. No other change comes between the two, of this agent or another.
// amend may be called again.
func (in *Inbox) Amend(ctx context.Context, incident, key string, amend func(kept []byte) ([]byte, error)) error {
	if err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		kept, _, err := recall(ctx, tx, incident, key)
		if err != nil {
			return err
		}
		value, err := amend(kept)
		if err != nil {
			return err
		}
		return keep(ctx, tx, incident, key, value)
	}); err != nil {
		return fmt.Errorf("amend memo %s: %w", key, err)
	}
	return nil
}

// memo is a Memo in the store.
type memo struct {
	inbox    *Inbox
	incident string
	attempt  int
}

var _ Memo = (*memo)(nil)

// Get implements Memo.
func (m *memo) Get(ctx context.Context, key string) ([]byte, bool, error) {
	return recall(ctx, m.inbox.store.read, m.incident, key)
}

// recall reads what a memo keeps.
func recall(ctx context.Context, q queryer, incident, key string) ([]byte, bool, error) {
	var value []byte
	err := q.QueryRowContext(ctx, `SELECT value FROM memos WHERE incident = $1 AND key = $2`, incident, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read memo %s: %w", key, err)
	}
	return value, true, nil
}

// Put implements Memo.
func (m *memo) Put(ctx context.Context, key string, value []byte, couriers ...string) error {
	ctx, cancel := outlasting(ctx)
	defer cancel()
	var queues []string
	if err := m.inbox.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := keep(ctx, tx, m.incident, key, value); err != nil {
			return err
		}
		var err error
		queues, err = m.inbox.announce(ctx, tx, m.incident, couriers...)
		return err
	}); err != nil {
		return fmt.Errorf("keep memo %s: %w", key, err)
	}
	m.inbox.wake(queues...)
	return nil
}

// keep writes what a memo keeps.
func keep(ctx context.Context, tx *sql.Tx, incident, key string, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO memos (incident, key, value) VALUES ($1, $2, $3)
		ON CONFLICT (incident, key) DO UPDATE SET value = excluded.value`, incident, key, value)
	return err
}

// Attempt implements Memo.
func (m *memo) Attempt() int { return m.attempt }

// Kept returns what a Memo keeps of an incident under key, from the store at
// a path or a postgres:// URL, which may be in use by running agents; false if
// nothing is.
func Kept(ctx context.Context, store, incident, key string) (value []byte, ok bool, err error) {
	db, err := openReader(store)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return recall(ctx, db, incident, key)
}
