package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/regpath/diagnose/reference/name"
)

// What several claims in one transaction are made of. Only what is simple is done here: names that have no row, in buckets
// that are not on the move. A name that is not inserted is taken, recyclable, or elsewhere, which its own statement finds out.
const (
	// $1 name, $2 user, $3 time, $4 and $5 bucket and bit; see fenceHere.
	insertFresh = `INSERT INTO TABLE_ (username, user_id, created_at, state)
		SELECT $1, $2, $3, CLAIMED_ FROM buckets WHERE bucket = $4 AND writes & $5 <> 0 AND noted & $5 = 0 FOR SHARE
		ON CONFLICT (username) DO NOTHING`
	// $1 names, $2 users, $3 times.
	insertUsers  = "INSERT INTO users (username, user_id, created_at) SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[])"
	insertClaims = "INSERT INTO outbox (state, username, user_id, at) SELECT CLAIMED_, * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[])"
)

func newInsertFresh(table string) string {
	return strings.NewReplacer("TABLE_", table, "CLAIMED_", literal(name.Claimed)).Replace(insertFresh)
}

// claimFresh claims in one transaction and two round trips: first the names, then the users and the events of those it got.
// After any failure but one whose outcome is open nothing is settled.
func (p *Postgres) claimFresh(ctx context.Context, conn *pgxpool.Conn, taken []*waiting) []outcome {
	out := make([]outcome, len(taken))
	if err := p.insertNames(ctx, conn, taken, out); err != nil {
		rollBack(ctx, conn)
		return make([]outcome, len(taken))
	}
	if open, err := insertOwners(ctx, conn, taken, out); err != nil {
		rollBack(ctx, conn)
		for i := range out {
			if out[i].settled && open {
				out[i] = outcome{settled: true, err: err}
			} else {
				out[i] = outcome{}
			}
		}
	}
	return out
}

// insertNames begins the transaction and marks as settled and won what was inserted.
func (p *Postgres) insertNames(ctx context.Context, conn *pgxpool.Conn, taken []*waiting, out []outcome) error {
	var b pgx.Batch
	b.Queue("BEGIN")
	for _, w := range taken {
		bucket, bit := place(w.Name)
		b.Queue(p.fresh[SubTable(w.Name)], w.Name, w.UserID, w.At, bucket, bit)
	}
	results := conn.SendBatch(ctx, &b)
	_, err := results.Exec()
	for i := 0; i < len(taken) && err == nil; i++ {
		var tag pgconn.CommandTag
		tag, err = results.Exec()
		if tag.RowsAffected() > 0 {
			out[i] = outcome{settled: true, won: true}
		}
	}
	return errors.Join(err, results.Close())
}

// insertOwners adds the users and the events and commits. Open means that nobody knows whether it did.
func insertOwners(ctx context.Context, conn *pgxpool.Conn, taken []*waiting, out []outcome) (open bool, err error) {
	var names []string
	var users []int64
	var times []time.Time
	for i, w := range taken {
		if out[i].won {
			names, users, times = append(names, w.Name), append(users, w.UserID), append(times, w.At)
		}
	}
	var b pgx.Batch
	if len(names) > 0 {
		b.Queue(insertUsers, names, users, times)
		b.Queue(strings.ReplaceAll(insertClaims, "CLAIMED_", literal(name.Claimed)), names, users, times)
	}
	b.Queue("COMMIT")
	if err = conn.SendBatch(ctx, &b).Close(); err == nil {
		return false, nil
	}
	// An error that the database tells, and lives on, has undone the transaction.
	var told *pgconn.PgError
	return !errors.As(err, &told) || told.Severity != "ERROR", fmt.Errorf("claim: %w", err)
}

// rollBack ends a transaction that failed. If it cannot, the pool closes the connection, which does the same.
func rollBack(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
}
