package event

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
func (a *Audit) Handle(ctx context.Context, e Event) error {
	before, err := a.before(ctx, e)
	if err != nil {
		return Unavailable(fmt.Errorf("audit: %w", err))
	}
	done, err := a.db.ExecContext(ctx, `INSERT INTO audit (shard, id, type, username, user_id, at_micros)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, e.Shard, e.ID, e.Type, e.Name, e.UserID, e.At.UnixMicro())
	if err != nil {
		return Unavailable(fmt.Errorf("audit: %w", err))
	}
	added, err := done.RowsAffected()
	if err != nil {
		return Unavailable(fmt.Errorf("audit: %w", err))
	}
	if added > 0 && !follows(before, e.Type) {
		if before == "" {
			before = "no event"
		}
		a.unexplained.Add(1)
		a.report(fmt.Errorf("%w: %s follows %s", ErrUnexplained, e.Type, before))
	}
	return nil
}

// Unexplained counts the moves that cannot be, since the start.
func (a *Audit) Unexplained() uint64 { return a.unexplained.Load() }

// before is the type of the name's event before e, empty if there is none. It goes by the time of the move, for events of
// a bucket that has moved come from two shards.
func (a *Audit) before(ctx context.Context, e Event) (kind string, err error) {
	err = a.db.QueryRowContext(ctx, `SELECT type FROM audit
		WHERE username = $1 AND (at_micros < $2 OR at_micros = $2 AND shard = $3 AND id < $4)
		ORDER BY at_micros DESC, id DESC LIMIT 1`, e.Name, e.At.UnixMicro(), e.Shard, e.ID).Scan(&kind)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return kind, err
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
