package shard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/regpath/diagnose/reference/name"
)

// postgresWrites are the statements that change one sub-table. Each is a transaction of its own, in one round trip: the rows
// that a name's move touches are changed by the parts of one statement, and only if its first part changed the name.
type postgresWrites struct{ claim, move, free string }

// literal is the number of a state in SQL.
func literal(s name.State) string { return strconv.Itoa(int(s)) }

func newPostgresWrites(table string) postgresWrites {
	// $1 name, $2 user, $3 time, $4 mobile. FOR UPDATE waits for whoever moves the name at the same time and then looks
	// again; the update that follows is safe by that lock, and knows the owner before.
	claim := `WITH HERE_, recycled AS (
			UPDATE TABLE_ AS n SET user_id = $2, created_at = $3, state = CLAIMED_, recyclable_at = NULL
			FROM here, (SELECT user_id FROM TABLE_ WHERE username = $1 AND RELEASED_ AND recyclable_at <= $3 FOR UPDATE) AS old
			WHERE n.username = $1 RETURNING old.user_id AS previous
		), fresh AS (
			INSERT INTO TABLE_ (username, user_id, created_at, state) SELECT $1, $2, $3, CLAIMED_ FROM here
			ON CONFLICT (username) DO NOTHING RETURNING username
		), NOTE_, won AS (
			SELECT FROM recycled UNION ALL SELECT FROM fresh
		), owner AS (
			INSERT INTO users (user_id, username, mobile, created_at) SELECT $2, $1, $4::text, $3 FROM won
		), event AS (
			INSERT INTO outbox (state, username, user_id, at)
			SELECT AVAILABLE_, $1, previous, $3 FROM recycled UNION ALL SELECT CLAIMED_, $1, $2, $3 FROM won
		) SELECT CASE WHEN EXISTS (SELECT FROM here) THEN (SELECT count(*) FROM won) ELSE REFUSED_ END`
	// $1 name, $2 user, $3 from, $4 to, $5 end of the cool-down, $6 time.
	move := `WITH HERE_, moved AS (
			UPDATE TABLE_ SET state = $4, recyclable_at = $5 FROM here WHERE username = $1 AND user_id = $2 AND state = $3 RETURNING user_id
		), NOTE_, owner AS (
			UPDATE users SET deleted_at = $6 FROM moved WHERE users.user_id = moved.user_id AND $4 = GONE_
		), event AS (
			INSERT INTO outbox (state, username, user_id, at) SELECT $4, $1, user_id, $6 FROM moved
		) SELECT CASE WHEN EXISTS (SELECT FROM here) THEN (SELECT count(*) FROM moved) ELSE REFUSED_ END`
	// $1 name, $2 user or 0, $3 time.
	free := `WITH HERE_, moved AS (
			DELETE FROM TABLE_ USING here WHERE username = $1 AND $2::bigint IN (0, user_id) AND RELEASED_ AND recyclable_at <= $3 RETURNING user_id
		), NOTE_, event AS (
			INSERT INTO outbox (state, username, user_id, at) SELECT AVAILABLE_, $1, user_id, $3 FROM moved
		) SELECT CASE WHEN EXISTS (SELECT FROM here) THEN (SELECT count(*) FROM moved) ELSE REFUSED_ END`
	// The last two placeholders of each are the bucket and the bit of the name; see fenceHere.
	fill := func(statement, bucket, bit string) string {
		statement = strings.NewReplacer("HERE_", fenceHere, "NOTE_", fenceNote, "REFUSED_", strconv.Itoa(refused)).Replace(statement)
		return strings.NewReplacer("TABLE_", table, "RELEASED_", isReleased, "BUCKET_", bucket, "BIT_", bit,
			"AVAILABLE_", literal(name.Available), "CLAIMED_", literal(name.Claimed), "GONE_", literal(name.Released)).Replace(statement)
	}
	return postgresWrites{claim: fill(claim, "$5", "$6"), move: fill(move, "$7", "$8"), free: fill(free, "$4", "$5")}
}

// Claim implements [Store].
func (p *Postgres) Claim(ctx context.Context, c Claim) (won bool, err error) {
	if c.Mobile == "" { // the conflicts of numbers are told apart from those of names in a statement of their own
		if o := p.share(ctx, c); o.settled {
			return o.won, o.err
		}
	}
	conn, err := p.acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("claim: %w", err)
	}
	defer p.release(conn)
	return p.claimOn(ctx, conn, c)
}

// claimOn claims the name in a transaction of its own.
func (p *Postgres) claimOn(ctx context.Context, conn *pgxpool.Conn, c Claim) (won bool, err error) {
	var mobile *string
	if c.Mobile != "" {
		mobile = &c.Mobile
	}
	bucket, bit := place(c.Name)
	n, err := countOn(ctx, conn, p.writes[SubTable(c.Name)].claim, c.Name, c.UserID, c.At, mobile, bucket, bit)
	var violation *pgconn.PgError
	if errors.As(err, &violation) && violation.ConstraintName == "users_mobile" {
		return false, ErrMobileTaken
	}
	if err != nil {
		return false, fmt.Errorf("claim: %w", err)
	}
	return n > 0, nil
}

// Move implements [Store].
func (p *Postgres) Move(ctx context.Context, m Move) (moved bool, err error) {
	m, err = m.check()
	if err != nil {
		return false, err
	}
	var n int64
	bucket, bit := place(m.Name)
	switch writes := &p.writes[SubTable(m.Name)]; m.To {
	case name.Available:
		n, err = p.count(ctx, writes.free, m.Name, m.UserID, m.At, bucket, bit)
	default:
		_, recyclableAt := Row{State: m.To, RecyclableAt: m.RecyclableAt}.stored()
		n, err = p.count(ctx, writes.move, m.Name, m.UserID, m.From, m.To, recyclableAt, m.At, bucket, bit)
	}
	if err != nil {
		return false, fmt.Errorf("move: %w", err)
	}
	return n > 0, nil
}

// count runs a write, which answers how many rows it has changed, and [ErrMoved] if the shard does not hold the name.
func (p *Postgres) count(ctx context.Context, sql string, args ...any) (n int64, err error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer p.release(conn)
	return countOn(ctx, conn, sql, args...)
}

func countOn(ctx context.Context, conn *pgxpool.Conn, sql string, args ...any) (n int64, err error) {
	if err = conn.QueryRow(ctx, sql, args...).Scan(&n); err == nil && n == refused {
		err = ErrMoved
	}
	return n, err
}

// recyclableQuery is the query of Recyclable: each sub-table by its index, all in one round trip.
func recyclableQuery(tables [SubTables]table) string {
	arms := make([]string, 0, SubTables)
	for _, t := range tables {
		arms = append(arms, "(SELECT username FROM "+t.name+" WHERE "+isReleased+" AND recyclable_at <= $1 LIMIT $2)")
	}
	return strings.Join(arms, " UNION ALL ") + " LIMIT $2"
}

// Recyclable implements [Store].
func (p *Postgres) Recyclable(ctx context.Context, now time.Time, limit int) ([]string, error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.release(conn)
	rows, err := conn.Query(ctx, p.recycle, now, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("list what is recyclable: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list what is recyclable: %w", err)
	}
	return names, nil
}
