package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// schemaVersion is kept in SQLite's user_version, and in Postgres in a table.
const schemaVersion = 5

// schemaSteps are the store's own part, River's tables are made by its
// migrations: step n makes version n+1 out of version n. They are written in
// SQLite's words, but for BOOLEAN; words says what a database has instead.
func schemaSteps(words ...string) []string {
	steps := []string{schemaIncidents, schemaDeliveries, schemaEpisodes, schemaBarks, schemaPending}
	spell := strings.NewReplacer(words...)
	for i, step := range steps {
		steps[i] = spell.Replace(step)
	}
	return steps
}

// sqliteSteps are the steps for SQLite, whose strict tables know no truth values.
func sqliteSteps() []string { return schemaSteps("BOOLEAN", "INTEGER") }

// postgresSteps are the steps for Postgres. No store there is of a version before the
// third, so that what only Postgres needs is part of the first step.
func postgresSteps() []string {
	steps := schemaSteps("INTEGER", "BIGINT", "BLOB", "BYTEA", " STRICT, WITHOUT ROWID", "", " STRICT", "")
	steps[0] += schemaPostgres
	return steps
}

// upgrade makes the tables that a store of this version lacks: all of them in a new
// one. It refuses a store from a newer program.
func (s *store) upgrade(ctx context.Context, version int, steps []string) error {
	if version < 0 || version > schemaVersion {
		return fmt.Errorf("store %s has version %d, this program knows version %d: run the version that wrote it, or give this one a store of its own",
			s.name, version, schemaVersion)
	}
	if version == schemaVersion {
		return nil
	}
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, step := range steps[version:] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return fmt.Errorf("create tables: %w", err)
			}
		}
		_, err := tx.ExecContext(ctx, s.touch)
		return err
	})
}

// schemaIncidents is what the intake keeps.
// Times are RFC 3339 in UTC with nine digits, so that text order is time order;
// the empty string is the zero time.
const schemaIncidents = `
CREATE TABLE incidents (
	id          TEXT PRIMARY KEY,
	group_key   TEXT NOT NULL,
	route       TEXT NOT NULL,
	receiver    TEXT NOT NULL,
	state       TEXT NOT NULL CHECK (state IN ('open', 'resolved')),
	title       TEXT NOT NULL,
	severity    TEXT NOT NULL,
	started_at  TEXT NOT NULL,
	opened_at   TEXT NOT NULL,
	updated_at  TEXT NOT NULL,
	resolved_at TEXT NOT NULL DEFAULT '',
	hidden      INTEGER NOT NULL DEFAULT 0,
	kept_bytes  INTEGER NOT NULL DEFAULT 0,
	-- revision counts news; worked is the revision that the last run has seen.
	revision    INTEGER NOT NULL DEFAULT 0,
	worked      INTEGER NOT NULL DEFAULT 0,
	-- attempts counts the runs begun since the last one that succeeded.
	attempts    INTEGER NOT NULL DEFAULT 0,
	error       TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX incidents_open ON incidents (group_key) WHERE state = 'open';
CREATE INDEX incidents_route ON incidents (route) WHERE state = 'open';
CREATE INDEX incidents_opened_at ON incidents (opened_at);
CREATE INDEX incidents_pending ON incidents (id) WHERE worked < revision;

CREATE TABLE alerts (
	incident    TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
	fingerprint TEXT NOT NULL,
	firing      BOOLEAN NOT NULL,
	starts_at   TEXT NOT NULL,
	ends_at     TEXT NOT NULL,
	-- body is null beyond the bounds on what is kept.
	body        BLOB,
	PRIMARY KEY (incident, fingerprint)
) STRICT, WITHOUT ROWID;

-- The latest known end of each alert: news that began before it is old.
CREATE TABLE ended (
	fingerprint TEXT PRIMARY KEY,
	ends_at     TEXT NOT NULL,
	seen_at     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_seen_at ON ended (seen_at);

CREATE TABLE memos (
	incident TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
	key      TEXT NOT NULL,
	value    BLOB NOT NULL,
	PRIMARY KEY (incident, key)
) STRICT;
`

// schemaDeliveries is what the couriers keep.
const schemaDeliveries = `
CREATE TABLE deliveries (
	incident TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
	courier  TEXT NOT NULL,
	-- wanted counts news for the courier; done is what it has delivered.
	wanted   INTEGER NOT NULL,
	done     INTEGER NOT NULL DEFAULT 0,
	-- since is when the oldest news came that is not delivered.
	since    TEXT NOT NULL,
	-- attempts counts the calls begun since there was news.
	attempts INTEGER NOT NULL DEFAULT 0,
	error    TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (incident, courier)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_open ON deliveries (courier, since) WHERE done < wanted;
`

// schemaEpisodes lets an incident be opened again, and end unheard.
const schemaEpisodes = `
-- episode counts how often the incident was opened.
ALTER TABLE incidents ADD COLUMN episode INTEGER NOT NULL DEFAULT 1;
-- heard_at is when the present episode was first heard of.
ALTER TABLE incidents ADD COLUMN heard_at TEXT NOT NULL DEFAULT '';
UPDATE incidents SET heard_at = opened_at;
-- stale is true where nobody has said that it is over: it is just not heard of any more.
ALTER TABLE incidents ADD COLUMN stale BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX incidents_over ON incidents (route, updated_at) WHERE state = 'resolved';

-- When the trouble of a route began, each time.
CREATE TABLE episodes (
	route TEXT NOT NULL,
	at    TEXT NOT NULL
) STRICT;
CREATE INDEX episodes_route ON episodes (route, at);
CREATE INDEX episodes_at ON episodes (at);
INSERT INTO episodes (route, at) SELECT route, opened_at FROM incidents;
`

// schemaBarks is what the watchdog keeps.
const schemaBarks = `
-- When the alert that always fires came last; one row.
CREATE TABLE barks (
	id BIGINT PRIMARY KEY,
	at TEXT NOT NULL
);
`

// schemaPending tells how long the work on an incident is overdue.
const schemaPending = `
-- pending_since is when the oldest news came that has not been worked through; what an
-- older program wrote has none, and is as old as its episode.
ALTER TABLE incidents ADD COLUMN pending_since TEXT NOT NULL DEFAULT '';
`

// schemaPostgres is what SQLite has by itself, and what several agents need.
const schemaPostgres = `
CREATE TABLE store_version (version BIGINT NOT NULL);
INSERT INTO store_version VALUES (0);

-- rowid is the order in which they were opened.
ALTER TABLE incidents ADD COLUMN rowid BIGINT GENERATED ALWAYS AS IDENTITY;

-- The agents that are alive, by the clock of the database.
CREATE TABLE agents (
	id      TEXT PRIMARY KEY,
	seen_at TIMESTAMPTZ NOT NULL
);

-- json_each is SQLite's function, as far as the statements use it.
CREATE FUNCTION json_each(list TEXT) RETURNS TABLE (value TEXT)
	LANGUAGE sql IMMUTABLE AS 'SELECT json_array_elements_text(list::json)';
`
