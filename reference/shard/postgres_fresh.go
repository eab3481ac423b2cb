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

// placementLock is the advisory lock that shared transactions hold together and that whoever changes a bucket holds alone. It
// stands in for the lock on the row of each name's bucket, which would be a write to the row and to the log. The number is
// arbitrary ("place" in ASCII).
const placementLock = 0x706c616365

// What several claims in one transaction are made of. Only what is simple is done here: names that have no row, in buckets
// that are not on the move. A name that is not inserted is taken, recyclable, or elsewhere, which its own statement finds out.
//
// The lock has a statement of its own: at READ COMMITTED the one after it sees what was committed while it was waited for.
// Claims that are one statement have seen the buckets before they could wait, and lock the rows instead; see fenceHere.
const (
	beginFresh = "BEGIN ISOLATION LEVEL READ COMMITTED"
	lockFresh  = "SELECT pg_advisory_xact_lock_shared($1)"
	// $1 names, $2 users, $3 times, $4 sub-tables, $5 and $6 buckets and bits. The look at the bucket is a subquery lest
	// all buckets are read for a join.
	insertFresh = `WITH given AS MATERIALIZED (
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::int[], $5::int[], $6::int[])
				AS g (username, user_id, at, part, bucket, bit)
			WHERE (SELECT b.writes & g.bit <> 0 AND b.noted & g.bit = 0 FROM buckets AS b WHERE b.bucket = g.bucket)
		), PARTS_, won AS MATERIALIZED (
			WON_
		), owner AS (
			INSERT INTO users (user_id, username, created_at) SELECT user_id, username, created_at FROM won
		), event AS (
			INSERT INTO outbox (state, username, user_id, at) SELECT CLAIMED_, username, user_id, created_at FROM won
		) SELECT username, user_id FROM won`
	insertFreshPart = `PART_ AS (
			INSERT INTO TABLE_ (username, user_id, created_at, state)
			SELECT username, user_id, at, CLAIMED_ FROM given WHERE part = NUMBER_
			ON CONFLICT (username) DO NOTHING RETURNING username, user_id, created_at
		)`
)

func newInsertFresh(tables [SubTables]table) string {
	var parts, won []string
	for i, t := range tables {
		part := "part_" + strconv.Itoa(i)
		parts = append(parts, strings.NewReplacer("PART_", part, "TABLE_", t.name, "NUMBER_", strconv.Itoa(i)).Replace(insertFreshPart))
		won = append(won, "SELECT * FROM "+part)
	}
	whole := strings.NewReplacer("PARTS_", strings.Join(parts, ", "), "WON_", strings.Join(won, " UNION ALL ")).Replace(insertFresh)
	return strings.ReplaceAll(whole, "CLAIMED_", literal(name.Claimed))
}

// claimFresh claims in one transaction and one round trip. After any failure but one whose outcome is open nothing is settled.
func (p *Postgres) claimFresh(ctx context.Context, conn *pgxpool.Conn, taken []*waiting) []outcome {
	out := make([]outcome, len(taken))
	won, err := p.insertFresh(ctx, conn, taken)
	if err != nil {
		rollBack(ctx, conn)
		// An error that the database tells, and lives on, has undone the transaction; another one may have kept it from being sent.
		if told := (*pgconn.PgError)(nil); errors.As(err, &told) && told.Severity == "ERROR" || pgconn.SafeToRetry(err) {
			return out
		}
	}
	for i, w := range taken {
		key := winner{w.Name, w.UserID}
		switch {
		case err != nil:
			out[i] = outcome{settled: true, err: fmt.Errorf("claim: %w", err)}
		case won[key]:
			out[i] = outcome{settled: true, won: true}
			delete(won, key) // of two that are the same one has won
		}
	}
	return out
}

// winner is a name with its owner.
type winner struct {
	name string
	user int64
}

// insertFresh tells which claims it has committed. After an error that the database did not tell, nobody knows.
func (p *Postgres) insertFresh(ctx context.Context, conn *pgxpool.Conn, taken []*waiting) (map[winner]bool, error) {
	n := len(taken)
	names, users, times := make([]string, n), make([]int64, n), make([]time.Time, n)
	parts, buckets, bits := make([]int32, n), make([]int32, n), make([]int32, n)
	for i, w := range taken {
		names[i], users[i], times[i], parts[i] = w.Name, w.UserID, w.At, int32(SubTable(w.Name))
		bucket, bit := place(w.Name)
		buckets[i], bits[i] = int32(bucket), int32(bit)
	}
	won := make(map[winner]bool, n)
	var b pgx.Batch
	b.Queue(beginFresh)
	b.Queue(lockFresh, placementLock)
	b.Queue(p.fresh, names, users, times, parts, buckets, bits).Query(func(rows pgx.Rows) error {
		var one winner
		_, err := pgx.ForEachRow(rows, []any{&one.name, &one.user}, func() error { won[one] = true; return nil })
		return err
	})
	b.Queue("COMMIT")
	return won, conn.SendBatch(ctx, &b).Close()
}

// rollBack ends a transaction that failed. If it cannot, the pool closes the connection, which does the same.
func rollBack(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
}
