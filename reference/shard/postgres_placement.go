package shard

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Placement implements [Store].
func (p *Postgres) Placement() Placement { return Placement{db: postgresSessions{p}} }

type postgresSessions struct{ store *Postgres }

func (postgresSessions) locks() (share, update string) { return " FOR SHARE", " FOR UPDATE" }

func (postgresSessions) exclude(ctx context.Context, s session) error {
	_, err := s.exec(ctx, "SELECT pg_advisory_xact_lock($1)", placementLock)
	return err
}

// transact runs at READ COMMITTED, the isolation that pgx leaves to the server unless the DSN says otherwise: what follows a
// lock sees what was committed while it was waited for.
func (p postgresSessions) transact(ctx context.Context, work func(session) error) error {
	conn, err := p.store.acquire(ctx)
	if err != nil {
		return err
	}
	defer p.store.release(conn)
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return work(postgresSession{tx}) })
}

type postgresSession struct{ tx pgx.Tx }

func (p postgresSession) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := p.tx.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (p postgresSession) query(ctx context.Context, scan func(func(...any) error) error, sql string, args ...any) error {
	rows, err := p.tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
