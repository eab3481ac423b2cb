package event

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/regpath/diagnose/reference/name"
)

// Audit keeps one row of every event for good, in a table that is only ever added to, and holds every move of a name
// against the one before: what does not follow from it was done behind the service, which tells of all its moves.
type Audit struct {
	db          *sql.DB
	unexplained atomic.Uint64
	report      func(error)
}

// ErrUnexplained is in the chain of what an Audit reports of a move that cannot be.
var ErrUnexplained = errors.New("a name's state was changed behind the service")

// NewAudit makes the table where it is not there yet, in PostgreSQL or SQLite. The caller closes the database. report is told
// of every move that cannot be; it must not block. Where the table holds millions of rows, make its index with CREATE INDEX
// CONCURRENTLY first: the building of it holds up the group.
func NewAudit(ctx context.Context, db *sql.DB, report func(error)) (*Audit, error) {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS audit (
			shard TEXT NOT NULL, id BIGINT NOT NULL, type TEXT NOT NULL, username TEXT NOT NULL,
			user_id BIGINT NOT NULL, at_micros BIGINT NOT NULL, PRIMARY KEY (shard, id))`,
		`CREATE INDEX IF NOT EXISTS audit_username ON audit (username, at_micros)`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("create audit table: %w", err)
		}
	}
	return &Audit{db: db, report: report}, nil
}

// Handle is a [Handler]. The table's key sees to it that a repeated event adds nothing and is judged once.
func (a *Audit) Handle(ctx context.Context, e Event) error { return a.HandleAll(ctx, []Event{e}) }

// HandleAll handles several events at once; see [ConsumerOptions.HandleAll].
func (a *Audit) HandleAll(ctx context.Context, events []Event) error {
	for len(events) > 0 {
		n := differing(events)
		if err := a.add(ctx, events[:n]); err != nil {
			return Unavailable(fmt.Errorf("audit: %w", err))
		}
		events = events[n:]
	}
	return nil
}

// differing is how many of the first events are about different names. What a statement sees of the rows that it adds
// itself differs from database to database.
func differing(events []Event) int {
	seen := make(map[string]struct{}, len(events))
	for i, e := range events {
		if _, again := seen[e.Name]; again {
			return i
		}
		seen[e.Name] = struct{}{}
	}
	return len(events)
}

// Unexplained counts the moves that cannot be, since the start.
func (a *Audit) Unexplained() uint64 { return a.unexplained.Load() }

// moveKey identifies an event.
type moveKey struct {
	shard string
	id    int64
}

// add adds events of different names in one statement, and judges those that are new.
func (a *Audit) add(ctx context.Context, events []Event) error {
	args := make([]any, 0, 6*len(events))
	for _, e := range events {
		args = append(args, e.Shard, e.ID, e.Type, e.Name, e.UserID, e.At.UnixMicro())
	}
	rows, err := a.db.QueryContext(ctx, addStatement(len(events)), args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	before := make(map[moveKey]string, len(events))
	for rows.Next() {
		var key moveKey
		var kind string
		if err := rows.Scan(&key.shard, &key.id, &kind); err != nil {
			return err
		}
		before[key] = kind
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, e := range events {
		if kind, added := before[moveKey{e.Shard, e.ID}]; added {
			a.judge(kind, e)
		}
	}
	return nil
}

// addStatement adds n rows and returns, of those that are new, the type of the name's event before, empty if there is none.
// It goes by the time of the move, for events of a bucket that has moved come from two shards.
func addStatement(n int) string {
	var s strings.Builder
	s.WriteString("INSERT INTO audit (shard, id, type, username, user_id, at_micros) VALUES ")
	for i := range n {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, "($%d,$%d,$%d,$%d,$%d,$%d)", 6*i+1, 6*i+2, 6*i+3, 6*i+4, 6*i+5, 6*i+6)
	}
	s.WriteString(` ON CONFLICT DO NOTHING RETURNING shard, id, coalesce((SELECT b.type FROM audit AS b
		WHERE b.username = audit.username AND (b.at_micros < audit.at_micros
			OR b.at_micros = audit.at_micros AND b.shard = audit.shard AND b.id < audit.id)
		ORDER BY b.at_micros DESC, b.id DESC LIMIT 1), '')`)
	return s.String()
}

func (a *Audit) judge(before string, e Event) {
	if follows(before, e.Type) {
		return
	}
	if before == "" {
		before = "no event"
	}
	a.unexplained.Add(1)
	a.report(fmt.Errorf("%w: %s follows %s", ErrUnexplained, e.Type, before))
}

// follows says whether a name's life has that move. A name without an event may have been loaded with an owner, and by
// nothing else: none is released without one.
func follows(before, now string) bool {
	to, ok := stateOf(now)
	if !ok {
		return true // of a later version
	}
	from, ok := stateOf(before)
	if !ok {
		return to != name.Available
	}
	return name.CanMove(from, to) == nil
}

// stateOf is the state that an event of that type brings a name to.
func stateOf(kind string) (name.State, bool) {
	for s := name.Available; s <= name.Released; s++ {
		if kind == "USERNAME_"+s.String() {
			return s, true
		}
	}
	return 0, false
}
