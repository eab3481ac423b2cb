package postgres

import (
	"fmt"
	"strings"
)

// serviceRoles are the roles that are taken for the service's: the one with most
// sessions in the database, as a service keeps a pool of them and whoever else comes
// has a few. Of several with as many any may be. No right is needed for it.
const serviceRoles = `(SELECT usesysid FROM pg_stat_activity
		WHERE datname = current_database() AND usesysid IS NOT NULL AND pid <> pg_backend_pid()
		GROUP BY 1 ORDER BY count(*) DESC FETCH FIRST ROW WITH TIES)`

// serverQuery asks for what there is one of per server. It needs no rights; the lag
// of replicas and the sequences are NULL for a role that may not see them.
// reset_val is what default_transaction_read_only would be had the agent not set it,
// and tells nothing of others where it is set for the agent's role;
// of the roles that are set so only the service's counts, as others may be for reports.
const serverQuery = `SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all,
	extract(epoch FROM clock_timestamp()) AS now,
	extract(epoch FROM pg_postmaster_start_time()) || ' ' || coalesce(extract(epoch FROM d.stats_reset), 0) AS epoch,
	pg_is_in_recovery() AS standby,
	CASE WHEN EXISTS (SELECT FROM pg_db_role_setting
			WHERE setdatabase IN (0, d.datid) AND setrole = current_user::regrole AND setconfig::text ~* 'default_transaction_read_only=')
		THEN NULL ELSE (SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_read_only') = 'on' END OR EXISTS (
		SELECT FROM pg_db_role_setting WHERE setdatabase IN (0, d.datid)
		AND (setrole = 0 OR setrole IN ` + serviceRoles + `)
		AND setconfig::text ~* 'default_transaction_read_only=(on|true|yes|1)') AS read_only,
	current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- coalesce(current_setting('reserved_connections', true)::int, 0) AS slots,
	d.xact_commit AS commits, d.xact_rollback AS rollbacks, d.deadlocks,
	r.replicas, r.lag_seconds, r.lag_bytes, r.lags,
	CASE WHEN pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn()
		THEN extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END AS own_lag,
	q.used AS sequence_used, q.ahead AS sequence_ahead
	FROM pg_stat_database AS d, (
		SELECT count(*) AS replicas, max(extract(epoch FROM replay_lag)) AS lag_seconds,
			max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, replay_lsn)) AS lag_bytes,
			string_agg(coalesce(host(client_addr), 'local') || '=' || coalesce(extract(epoch FROM replay_lag), 0), ' ') AS lags
		FROM pg_stat_replication WHERE application_name <> 'pg_basebackup'
	) AS r, (
		SELECT max(v::float8 / seqmax) AS used, sum(v - t.n_tup_ins) AS ahead
		FROM (SELECT seqrelid, seqmax, CASE WHEN has_sequence_privilege(seqrelid, 'SELECT,USAGE')
			THEN pg_sequence_last_value(seqrelid) END AS v FROM pg_sequence) AS s
		JOIN pg_depend AS dep ON dep.classid = 'pg_class'::regclass AND dep.objid = s.seqrelid AND dep.deptype IN ('a', 'i')
		JOIN pg_stat_user_tables AS t ON t.relid = dep.refobjid
	) AS q WHERE d.datname = current_database()`

// sessionsQuery groups the sessions of clients of all databases, as they share the
// slots. Those in this one are here, but for the agent's own: one server may hold
// several shards, and what others do on it is theirs. The service's have its role and
// are none of the tools that come with Postgres, which call themselves psql and pg_….
// Beyond the fifty names with most sessions (a name for each pod, say) the name is NULL,
// so that the answer is short and every session is in it.
const sessionsQuery = `SELECT CASE WHEN place <= 50 THEN name END AS client, coalesce(state, '') AS state,
	coalesce(datname = current_database(), false) AND pid <> pg_backend_pid() AS here,
	coalesce(datname = current_database() AND usesysid IN ` + serviceRoles + ` AND name !~ '^(psql$|pg_)', false)
		AND pid <> pg_backend_pid() AS service,
	coalesce(wait_event_type, '') AS wait, count(*) AS n,
	max(extract(epoch FROM clock_timestamp() - state_change)) AS state_age,
	max(extract(epoch FROM clock_timestamp() - xact_start)) AS transaction_age,
	count(*) FILTER (WHERE clock_timestamp() - state_change >= interval '5 s') AS stale,
	count(*) FILTER (WHERE clock_timestamp() - query_start >= interval '1 s') AS slow
	FROM (SELECT *, dense_rank() OVER (ORDER BY named DESC, name) AS place FROM (
		SELECT *, coalesce(application_name, '') AS name, count(*) OVER (PARTITION BY coalesce(application_name, '')) AS named
		FROM pg_stat_activity WHERE backend_type = 'client backend') AS clients) AS places
	GROUP BY client, state, here, service, wait ORDER BY n DESC`

// locksQuery lists the sessions in this database that wait for a lock, with those they wait for, and
// these. pg_blocking_pids takes the lock manager for a moment, so it is asked for
// the waiting ones alone, and for a hundred at most. It has the pid 0 for a transaction that was
// prepared and left, whichever; its age is that of the youngest.
const locksQuery = `WITH waiting AS MATERIALIZED (
		SELECT w.pid, pg_blocking_pids(w.pid) AS blockers FROM (
			SELECT pid FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND backend_type = 'client backend' AND datname = current_database() LIMIT 100) AS w
	) (SELECT a.pid, coalesce(a.application_name, '') AS client, coalesce(a.state, '') AS state,
		extract(epoch FROM clock_timestamp() - a.xact_start) AS transaction_age,
		array_to_string(w.blockers, ' ') AS blockers
	FROM pg_stat_activity AS a LEFT JOIN waiting AS w ON w.pid = a.pid
	WHERE w.pid IS NOT NULL OR a.pid IN (SELECT unnest(blockers) FROM waiting) LIMIT 200)
	UNION ALL SELECT 0, '(a prepared transaction)', 'prepared', extract(epoch FROM clock_timestamp() - max(prepared)), NULL
	FROM pg_prepared_xacts WHERE database = current_database() AND 0 IN (SELECT unnest(blockers) FROM waiting) HAVING count(*) > 0`

// tablesQuery asks for the tables of names. A unique index that is partial or not
// valid keeps nothing unique, and one that is not valid is not read by. One that does
// not begin with the name, or what is made of it as lower(), is of no use to it.
func tablesQuery(o Options) string {
	return fmt.Sprintf(`SELECT quote_ident(s.schemaname) || '.' || quote_ident(s.relname) AS name,
	s.seq_scan AS scans, s.seq_tup_read AS scanned, coalesce(s.idx_scan, 0) AS by_index,
	s.n_tup_ins AS inserted, s.n_tup_upd AS updated, s.n_tup_del AS deleted, s.n_live_tup AS live, s.n_dead_tup AS dead,
	s.vacuum_count + s.autovacuum_count AS vacuums, greatest(c.relpages, s.n_live_tup / 100) AS pages,
	CASE WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = s.relid AND attname = '%[3]s' AND NOT attisdropped) THEN
		EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = s.relid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
		AND pg_get_indexdef(i.indexrelid, 1, false) ~ '\m%[3]s\M') END AS indexed,
	has_table_privilege(s.relid, 'SELECT') AS readable,
	coalesce(has_table_privilege(to_regclass('%[2]s'), 'SELECT'), false) AS routing
	FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid WHERE s.relname LIKE '%[1]s' ORDER BY 1 LIMIT 256`,
		o.Tables, o.Routing, o.Column)
}

const (
	// sampledTables is from how many tables of a shard names are taken.
	sampledTables = 16
	// sampledPages is about how many pages of each table are read for that.
	sampledPages = 4
	// sampledNames is how many names are taken of a table.
	sampledNames = 8
)

// place is a table of names and its size.
type place struct {
	table string
	pages float64
}

// namesQuery samples names of the tables.
func namesQuery(o Options, places []place, routing bool) string {
	var parts []string
	for _, p := range places {
		parts = append(parts, fmt.Sprintf("(SELECT %s::text AS name, NULL::bigint AS version FROM %s TABLESAMPLE SYSTEM (%.6f) ORDER BY random() LIMIT %d)",
			o.Column, p.table, min(100, 100*sampledPages/max(p.pages, 1)), sampledNames))
	}
	if routing {
		parts = append(parts, "(SELECT NULL::text, version::bigint FROM "+o.Routing+" LIMIT 1)")
	}
	return strings.Join(parts, " UNION ALL ")
}
