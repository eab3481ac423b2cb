package webhook

// schemaVersion is kept in SQLite's user_version.
const schemaVersion = 4

// schemaSteps are the store's own part, River's tables are made by its
// migrations: step n makes version n+1 out of version n.
func schemaSteps() []string {
	return []string{schemaIncidents, schemaDeliveries, schemaEpisodes, schemaBarks}
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
	firing      INTEGER NOT NULL,
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
-- stale is 1 where nobody has said that it is over: it is just not heard of any more.
ALTER TABLE incidents ADD COLUMN stale INTEGER NOT NULL DEFAULT 0;
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

// schemaBarks is the same for SQLite and Postgres.
const schemaBarks = `
-- When the alert that always fires came last; one row.
CREATE TABLE barks (
	id BIGINT PRIMARY KEY,
	at TEXT NOT NULL
);
`
