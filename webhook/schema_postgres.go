package webhook

// postgresSteps are those of SQLite; there was no Postgres before the third.
func postgresSteps() []string { return []string{"", "", schemaPostgres, schemaBarks} }

// schemaPostgres is what the first three steps of SQLite lead to, and what several
// agents need beside it.
const schemaPostgres = `
CREATE TABLE store_version (version BIGINT NOT NULL);
INSERT INTO store_version VALUES (0);

CREATE TABLE incidents (
	-- rowid is the order in which they were opened, as SQLite has it.
	rowid       BIGINT GENERATED ALWAYS AS IDENTITY,
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
	hidden      BIGINT NOT NULL DEFAULT 0,
	kept_bytes  BIGINT NOT NULL DEFAULT 0,
	revision    BIGINT NOT NULL DEFAULT 0,
	worked      BIGINT NOT NULL DEFAULT 0,
	attempts    BIGINT NOT NULL DEFAULT 0,
	error       TEXT NOT NULL DEFAULT '',
	episode     BIGINT NOT NULL DEFAULT 1,
	heard_at    TEXT NOT NULL DEFAULT '',
	stale       BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE UNIQUE INDEX incidents_open ON incidents (group_key) WHERE state = 'open';
CREATE INDEX incidents_route ON incidents (route) WHERE state = 'open';
CREATE INDEX incidents_opened_at ON incidents (opened_at);
CREATE INDEX incidents_pending ON incidents (id) WHERE worked < revision;
CREATE INDEX incidents_over ON incidents (route, updated_at) WHERE state = 'resolved';

CREATE TABLE alerts (
	incident    TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
	fingerprint TEXT NOT NULL,
	firing      BOOLEAN NOT NULL,
	starts_at   TEXT NOT NULL,
	ends_at     TEXT NOT NULL,
	body        BYTEA,
	PRIMARY KEY (incident, fingerprint)
);

CREATE TABLE ended (
	fingerprint TEXT PRIMARY KEY,
	ends_at     TEXT NOT NULL,
	seen_at     TEXT NOT NULL
);
CREATE INDEX ended_seen_at ON ended (seen_at);

CREATE TABLE memos (
	incident TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
	key      TEXT NOT NULL,
	value    BYTEA NOT NULL,
	PRIMARY KEY (incident, key)
);

CREATE TABLE deliveries (
	incident TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
	courier  TEXT NOT NULL,
	wanted   BIGINT NOT NULL,
	done     BIGINT NOT NULL DEFAULT 0,
	since    TEXT NOT NULL,
	attempts BIGINT NOT NULL DEFAULT 0,
	error    TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (incident, courier)
);
CREATE INDEX deliveries_open ON deliveries (courier, since) WHERE done < wanted;

CREATE TABLE episodes (
	route TEXT NOT NULL,
	at    TEXT NOT NULL
);
CREATE INDEX episodes_route ON episodes (route, at);
CREATE INDEX episodes_at ON episodes (at);

-- The agents that are alive, by the clock of the database.
CREATE TABLE agents (
	id      TEXT PRIMARY KEY,
	seen_at TIMESTAMPTZ NOT NULL
);

-- json_each is SQLite's function, as far as the statements use it.
CREATE FUNCTION json_each(list TEXT) RETURNS TABLE (value TEXT)
	LANGUAGE sql IMMUTABLE AS 'SELECT json_array_elements_text(list::json)';
`
