package shard

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// schemaLock is the advisory lock under which the schema is made: CREATE TABLE IF NOT EXISTS alone fails when two sessions
// run it at the same time. The number is arbitrary ("names" in ASCII).
const schemaLock = 0x6e616d6573

// postgresCommon makes what a shard has once. Users live with their names, so that one transaction makes both. The unique
// index on mobile numbers speaks for this shard alone; see [Cluster.ClaimMobile]. The outbox keeps what was published
// until it is purged, for the day the stream loses it. Its ids are unique by their sequence: a primary key would be one more index
// for every registration to write, and everything that is asked of the outbox is asked by one of its partial indexes.
const postgresCommon = `
	CREATE TABLE IF NOT EXISTS users (
		user_id    bigint PRIMARY KEY,
		username   text COLLATE "C" NOT NULL,
		mobile     text COLLATE "C",
		created_at timestamptz NOT NULL,
		deleted_at timestamptz);
	CREATE UNIQUE INDEX IF NOT EXISTS users_mobile ON users (mobile) WHERE mobile IS NOT NULL AND deleted_at IS NULL;
	CREATE TABLE IF NOT EXISTS mobiles (
		mobile   text COLLATE "C" PRIMARY KEY,
		user_id  bigint NOT NULL,
		username text COLLATE "C" NOT NULL,
		held_at  timestamptz NOT NULL);
	CREATE TABLE IF NOT EXISTS outbox (
		id           bigint GENERATED ALWAYS AS IDENTITY,
		state        smallint NOT NULL,
		username     text COLLATE "C" NOT NULL,
		user_id      bigint NOT NULL,
		at           timestamptz NOT NULL,
		published_at timestamptz);
	CREATE INDEX IF NOT EXISTS outbox_unpublished ON outbox (id) WHERE published_at IS NULL;
	CREATE INDEX IF NOT EXISTS outbox_published ON outbox (published_at) WHERE published_at IS NOT NULL;`

// createTables brings the schema up to date. Every statement is additive and may be repeated. On tables that hold millions of
// rows, make the indexes names_NN_recyclable with CREATE INDEX CONCURRENTLY before the first start: without it, the
// building of each holds up writes to its table.
func (p *Postgres) createTables(ctx context.Context) error {
	relations := []string{"users", "users_mobile", "mobiles", "outbox", "outbox_unpublished", "outbox_published", "routing", "notes", "buckets"}
	var ddl strings.Builder
	ddl.WriteString(postgresCommon)
	ddl.WriteString(placementTables("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"))
	for _, t := range p.tables {
		// The index comes last and needs the columns: where it is, all is.
		index := t.name + "_recyclable"
		relations = append(relations, t.name, index)
		// The primary key is the one unique index. Collation C compares bytes: fast, and safe from changes of the
		// system's locales, which break indexes silently.
		fmt.Fprintf(&ddl, `
			CREATE TABLE IF NOT EXISTS %[1]s (
				username   text COLLATE "C" PRIMARY KEY,
				user_id    bigint NOT NULL,
				created_at timestamptz NOT NULL);
			ALTER TABLE %[1]s
				ADD COLUMN IF NOT EXISTS state smallint NOT NULL DEFAULT 1,
				ADD COLUMN IF NOT EXISTS recyclable_at timestamptz;
			CREATE INDEX IF NOT EXISTS %[2]s ON %[1]s (recyclable_at) WHERE %[3]s;`, t.name, index, isReleased)
	}

	conn, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer p.release(conn)
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
			return fmt.Errorf("lock the schema: %w", err)
		}
		var present int
		err := tx.QueryRow(ctx, "SELECT count(*) FROM unnest($1::text[]) AS t WHERE to_regclass(t) IS NOT NULL", relations).Scan(&present)
		if err != nil {
			return fmt.Errorf("look for the tables: %w", err)
		}
		if present == len(relations) {
			return nil
		}
		if _, err := tx.Exec(ctx, ddl.String()); err != nil {
			return fmt.Errorf("create tables: %w", err)
		}
		return nil
	})
}
