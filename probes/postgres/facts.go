package postgres

import "github.com/regpath/diagnose/probes"

// The tables of the probe.
const (
	tableClients   = "clients"      // whose sessions fill the fullest server
	tableBlockers  = "blockers"     // sessions at the root of a lock queue
	tableFull      = "full servers" // shards without a slot for another session
	tableReadOnly  = "read-only"    // shards that take no writes
	tableReplicas  = "behind"       // shards with a replica that is behind
	tableScans     = "scans"        // tables of names that are read as a whole
	tableFailed    = "failed rows"  // shards on which inserts are rolled back
	tableMisplaced = "misplaced"    // shards that hold names of others
	tableQueues    = "pooler queues"
	tableSessions  = "sessions"
)

// facts documents what the probe can return. A shard that does not answer the
// agent is left out of all but the first three; one whose answer is refused makes
// unknown what it was asked for. What is said of sessions and locks is about the
// shard's own database, unless it is about slots.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "shards_configured", Help: "Shards that the agent has a DSN of."},
		{Name: "shards_asked", Help: "Shards that answered it."},
		{Name: "slots_refused", Help: "Shards that refuse the agent's session because they have no slot left (SQLSTATE 53300).", Expected: "0"},
		{Name: "sessions", Help: "Sessions of clients on the fullest shard's server, of all its databases, the agent's own included."},
		{Name: "sessions_limit", Help: "How many it takes of ordinary roles: max_connections less those reserved."},
		{Name: "sessions_ratio", Unit: probes.Ratio, Help: "sessions divided by sessions_limit, at the lower of the samples.", Expected: "< 0.8"},
		{Name: "top_client_share", Unit: probes.Ratio, Help: "Share of the fullest shard's sessions that belong to one application_name."},
		{Name: "lock_waiters", Help: "Sessions that wait for a lock in both samples, or for a transaction that is older than the window, over all shards.", Expected: "0"},
		{Name: "shards_locked", Help: "Shards with such sessions.", Expected: "0"},
		{Name: "blocker_seconds", Unit: probes.Seconds, Help: "Age of the oldest transaction that others wait for and that waits for nobody; missing when nobody waits."},
		{Name: "blocker_idle", Unit: probes.Bool, Help: "Whether that transaction is idle: its client has sent nothing; missing when nobody waits.", Expected: "no"},
		{Name: "idle_transactions", Help: "Sessions that have been idle in a transaction for 5 s or longer, on the shard with most.", Expected: "0"},
		{Name: "idle_transaction_seconds", Unit: probes.Seconds, Help: "Age of the oldest transaction whose session is idle; 0 for none.", Expected: "< 5"},
		{Name: "transaction_seconds", Unit: probes.Seconds, Help: "Age of the oldest transaction, over all shards; 0 for none.", Expected: "< 5"},
		{Name: "busy_sessions", Help: "Sessions of the service that run a statement and wait for no lock, in both samples, on the shard with most. The service's are those of the role that has most in the database, but for psql and pg_dump and their like."},
		{Name: "slow_statements", Help: "Those that have run it for 1 s or longer, in both samples, over all shards.", Expected: "0"},
		{Name: "service_idle_sessions", Help: "Sessions of the service that have been idle, in no transaction, for 5 s or longer, in both samples, on the shard with most: none is of a pool whose callers queue."},
		{Name: "commits_rate", Unit: probes.PerSecond, Help: "Transactions committed per second over the window, over all shards."},
		{Name: "rollbacks_rate", Unit: probes.PerSecond, Help: "Transactions rolled back per second over the window, over all shards.", Expected: "0"},
		{Name: "deadlocks", Help: "Deadlocks over the window, over all shards.", Expected: "0"},
		{Name: "read_only", Help: "Shards that take no writes: standbys, and those with default_transaction_read_only on for the database or the role of the service.", Expected: "0"},
		{Name: "standbys", Help: "Shards that are in recovery.", Expected: "0"},
		{Name: "replicas", Help: "Streaming replicas, over all shards."},
		{Name: "replay_lag_seconds", Unit: probes.Seconds, Help: "How far the replica that serves look-ups is behind, by the address that the service gives of it, at the lower of the samples, on the worst shard; of replicas by other addresses the one that is least behind, as long as that is a second or more. Unknown where some are late and it cannot be told which serves.", Expected: "< 1"},
		{Name: "replay_lag_bytes", Unit: probes.Bytes, Help: "Write-ahead log that the replica that is furthest behind has not replayed, at the lower of the samples."},
		{Name: "sequence_used_ratio", Unit: probes.Ratio, Help: "How much of its range the sequence that is nearest to its end has given out; missing where the role may not read them.", Expected: "< 0.8"},
		{Name: "sequence_burn_rate", Unit: probes.PerSecond, Help: "Values per second that sequences gave out beyond the rows inserted in their tables: INSERT … ON CONFLICT burns one for every conflict."},
		{Name: "inserts_rate", Unit: probes.PerSecond, Help: "Rows per second inserted in the tables of names, those rolled back included."},
		{Name: "failed_inserts_rate", Unit: probes.PerSecond, Help: "Rows per second inserted there and rolled back: dead rows that no update or delete accounts for. A plain INSERT that meets a unique conflict leaves one.", Expected: "0"},
		{Name: "dead_rows_ratio", Unit: probes.Ratio, Help: "Dead rows divided by all rows of the tables of names, on the worst shard.", Expected: "< 0.2"},
		{Name: "unindexed_tables", Help: "Tables of names without a valid unique index that begins with the name, over all shards: nothing keeps names unique there.", Expected: "0"},
		{Name: "table_scans", Help: "How often the table of names that was read most as a whole was read so over the window.", Expected: "0"},
		{Name: "table_scan_rows", Help: "Rows that one such reading of it took; 0 for none."},
		{Name: "table_scan_share", Unit: probes.Ratio, Help: "Share of such readings among all accesses to it; 0 without accesses.", Expected: "< 0.1"},
		{Name: "names_routed", Help: "Names found on the shards, sampled, that the service was asked the shard of."},
		{Name: "names_misplaced", Help: "Those that the service looks for on another shard than the one they were found on.", Expected: "0"},
		{Name: "routing_differs", Help: "Shards whose own routing table has another version than the service's; missing where they keep none or the role may not read it.", Expected: "0"},
		{Name: "bouncers_configured", Help: "PgBouncers whose admin console the agent has a DSN of."},
		{Name: "bouncer_waiting", Help: "Clients that wait for a server connection of a PgBouncer in both samples (cl_waiting).", Expected: "0"},
		{Name: "bouncer_wait_seconds", Unit: probes.Seconds, Help: "How long the first of them has waited, at the lower of the samples (maxwait).", Expected: "0"},
		{Name: "bouncer_servers", Help: "Server connections that the pool with the longest queue has (sv_active and sv_idle)."},
	}
}
