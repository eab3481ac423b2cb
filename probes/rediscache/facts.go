package rediscache

import (
	"slices"

	"github.com/regpath/diagnose/probes"
)

// serverFacts come from the server, over the agent's own connection.
func serverFacts() []probes.FactDoc {
	return slices.Concat(reachFacts(), infoFacts(), detailFacts())
}

// reachFacts say how the server answers.
func reachFacts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "reachable", Unit: probes.Bool, Help: "Whether the server answers the agent, be it with an error; 0 when it refuses the connection, resets it or does not answer a PING.", Expected: "yes"},
		{Name: "hung", Unit: probes.Bool, Help: "Whether the server takes connections but does not answer within 3 s.", Expected: "no"},
		{Name: "turned_away", Unit: probes.Bool, Help: "Whether the server has no free connection for the agent: it is at its maxclients.", Expected: "no"},
		{Name: "ping_seconds", Unit: probes.Seconds, Help: "Median round trip of the PINGs, and of INFO, on the agent's own connection, spread over the window; slow here means a slow server, not a short pool. Missing below three of them.", Expected: "< 0.01"},
		{Name: "ping_max_seconds", Unit: probes.Seconds, Help: "Longest of these round trips; long beside a short median means that the server, or the agent, stalls now and then.", Expected: "< 0.03"},
		{Name: "pings_slow", Help: "How many of these round trips, of at most eight, took 50 ms or longer.", Expected: "0"},
	}
}

// infoFacts come from what INFO tells, and what changed in it over the window.
func infoFacts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "connected_clients", Help: "Client connections of the server."},
		{Name: "maxclients", Help: "Limit of client connections."},
		{Name: "clients_ratio", Unit: probes.Ratio, Help: "connected_clients divided by maxclients.", Expected: "<= 0.8"},
		{Name: "blocked_clients", Help: "Clients that wait in a blocking command.", Expected: "0"},
		{Name: "rejected_connections_rate", Unit: probes.PerSecond, Help: "Connections refused for maxclients, per second over the window.", Expected: "0"},
		{Name: "new_connections_rate", Unit: probes.PerSecond, Help: "Connections accepted per second over the window; many mean that clients drop theirs."},
		{Name: "oom_errors_rate", Unit: probes.PerSecond, Help: "Commands of all clients refused with OOM, as memory is at its limit and nothing may be evicted, per second over the window.", Expected: "0"},
		{Name: "misconf_errors_rate", Unit: probes.PerSecond, Help: "Writes of all clients refused with MISCONF, as the last save failed, per second over the window.", Expected: "0"},
		{Name: "readonly_errors_rate", Unit: probes.PerSecond, Help: "Writes of all clients refused with READONLY, as the server is a replica, per second over the window.", Expected: "0"},
		{Name: "replica", Unit: probes.Bool, Help: "Whether the server is a replica of another one.", Expected: "no"},
		{Name: "save_failed", Unit: probes.Bool, Help: "Whether the last save to disk, or the last write of the append-only file, failed.", Expected: "no"},
		{Name: "noeviction", Unit: probes.Bool, Help: "Whether the server refuses writes when memory is at its limit (maxmemory-policy noeviction) and evicts nothing."},
		{Name: "evicted_keys_rate", Unit: probes.PerSecond, Help: "Keys evicted for lack of memory, per second over the window.", Expected: "0"},
		{Name: "expired_keys_rate", Unit: probes.PerSecond, Help: "Keys that ended by their TTL, per second over the window."},
		{Name: "memory_used_bytes", Unit: probes.Bytes, Help: "Memory that the server uses."},
		{Name: "memory_max_bytes", Unit: probes.Bytes, Help: "Limit of that memory; 0 is unlimited."},
		{Name: "memory_ratio", Unit: probes.Ratio, Help: "memory_used_bytes divided by memory_max_bytes; missing when unlimited.", Expected: "< 0.95"},
		{Name: "server_hit_ratio", Unit: probes.Ratio, Help: "Key look-ups of all clients that found a key, over the window; missing below 500 look-ups."},
		{Name: "commands_rate", Unit: probes.PerSecond, Help: "Commands of all clients per second over the window."},
		{Name: "server_command_seconds", Unit: probes.Seconds, Help: "Mean time that a command of any client took in the server itself, over the window: microseconds, whatever the clients see.", Expected: "< 0.001"},
		{Name: "server_cpu_share", Unit: probes.Ratio, Help: "CPU time of the server's main thread divided by the window: a command that is slow by itself uses it, one that waits for the disk, the CPU or a stopped process does not."},
		{Name: "slow_command_share", Unit: probes.Ratio, Help: "Share of the window that the server, which does one thing at a time, spent in the one command that took most of it, of those whose calls took 10 ms or longer on average; 0 when there is none. Saving is counted apart.", Expected: "0"},
		{Name: "slow_command_seconds", Unit: probes.Seconds, Help: "Mean time of a call of that command."},
		{Name: "forks", Help: "Forks of the server, to save or to rewrite the append-only file, over the window."},
		{Name: "fork_seconds", Unit: probes.Seconds, Help: "How long the latest fork held the server up.", Expected: "< 0.05"},
		{Name: "persistence_share", Unit: probes.Ratio, Help: "Share of the window in which the server stood still to fork or to SAVE.", Expected: "0"},
		{Name: "delayed_fsyncs", Help: "How often over the window a write had to wait because the disk had not finished the last fsync of the append-only file.", Expected: "0"},
		{Name: "uptime_seconds", Unit: probes.Seconds, Help: "Time since the server started."},
	}
}

// detailFacts come from the slow log, the latency monitor and the list of
// connections.
func detailFacts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "slow_log_share", Unit: probes.Ratio, Help: "Share of the last 20 s that the server spent in the command that fills most of the slow log; 0 when the log has nothing as young.", Expected: "0"},
		{Name: "slow_log_max_seconds", Unit: probes.Seconds, Help: "Longest call in the slow log in the last 20 s."},
		{Name: "persistence_stall_seconds", Unit: probes.Seconds, Help: "Longest fork, write or fsync of the append-only file that the latency monitor recorded in the last 20 s; told only where the monitor is on and has recorded something."},
		{Name: "service_connections", Help: "Connections of the service's own pool, by the name that it gives them, as the server counts them."},
		{Name: "service_blocked", Help: "Those of them that wait in a blocking command.", Expected: "0"},
		{Name: "service_idle", Help: "Those of them on which nothing was sent for 3 s or longer and that do not wait in a blocking command: none is, while callers queue for the pool."},
	}
}

// clientFacts come from the service: Redis as it sees it.
func clientFacts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "hit_ratio", Unit: probes.Ratio, Help: "Names that the service found in Redis, of those that Redis answered, over the window; missing below 100 look-ups."},
		{Name: answerFact, Unit: probes.Seconds, Help: "Longest time that the service took to answer the agent's request for a few numbers that it has at hand; long means that it does not get the CPU, or is far.", Expected: "< 0.05"},
		{Name: "lookups_rate", Unit: probes.PerSecond, Help: "Names that the service looked up in Redis per second over the window."},
		{Name: "command_rate", Unit: probes.PerSecond, Help: "Commands of the service per second over the window."},
		{Name: "command_seconds", Unit: probes.Seconds, Help: "Mean time of a command as the service sees it, waiting for a connection included, over the window.", Expected: "< 0.01"},
		{Name: "errors_rate", Unit: probes.PerSecond, Help: "Failed commands of the service per second over the window.", Expected: "0"},
		{Name: "error_ratio", Unit: probes.Ratio, Help: "Share of the service's commands that failed, over the window.", Expected: "0"},
		{Name: "pool_size", Help: "Connections that the service's pool may hold."},
		{Name: "pool_in_use", Help: "Connections of the pool in use, at the last sample."},
		{Name: "pool_idle", Help: "Idle connections of the pool, at the last sample."},
		{Name: "pool_pending", Help: "Requests that wait for a connection of the pool, at the last sample.", Expected: "0"},
		{Name: "pool_in_use_ratio", Unit: probes.Ratio, Help: "pool_in_use divided by pool_size, at the last sample.", Expected: "< 0.9"},
		{Name: "pool_pending_min", Help: "Lowest pool_pending over the samples: above 0 the queue stands, it is not a passing burst.", Expected: "0"},
		{Name: "pool_idle_max", Help: "Highest pool_idle over the samples: 0 means that no connection was free in any of them, be they in use or being dialled.", Expected: "> 0"},
		{Name: "pool_waits_rate", Unit: probes.PerSecond, Help: "Requests that waited for a connection and got one, per second over the window; waits that failed are not in it."},
		{Name: "pool_wait_seconds", Unit: probes.Seconds, Help: "Mean of those waits; missing when there were none."},
		{Name: "pool_timeouts_rate", Unit: probes.PerSecond, Help: "Commands that ended without getting a connection, per second over the window.", Expected: "0"},
		{Name: "pool_dials_rate", Unit: probes.PerSecond, Help: "Connections that the service opened per second over the window.", Expected: "< 1"},
		{Name: "pool_acquires_rate", Unit: probes.PerSecond, Help: "Connections taken from the pool per second over the window."},
		{Name: "pool_turnover_rate", Unit: probes.PerSecond, Help: "How often a connection of the pool changes hands per second: pool_acquires_rate divided by pool_size; near 0 with a full pool is a leak."},
		{Name: "pool_hold_seconds", Unit: probes.Seconds, Help: "Mean time that a command holds a connection, by Little's law: connections in use divided by pool_acquires_rate. In use are all of pool_size while callers queue and none is idle, else the mean of the samples. A fast server that is held long is a far one, a slow caller or a stall."},
	}
}

// answerFact is how long the service takes to answer the agent.
const answerFact = "service_answer_seconds"

func names(docs []probes.FactDoc) []string {
	out := make([]string, 0, len(docs))
	for _, d := range docs {
		out = append(out, d.Name)
	}
	return out
}
