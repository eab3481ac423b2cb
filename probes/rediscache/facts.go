package rediscache

import "github.com/regpath/diagnose/probes"

// serverFacts come from the server, over the agent's own connection.
func serverFacts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "reachable", Unit: probes.Bool, Help: "Whether the server answers the agent, be it with an error; 0 when it refuses the connection, resets it or does not answer a PING.", Expected: "yes"},
		{Name: "hung", Unit: probes.Bool, Help: "Whether the server takes connections but does not answer in time.", Expected: "no"},
		{Name: "ping_seconds", Unit: probes.Seconds, Help: "Median round trip of the PINGs on the agent's own connection, spread over the window; slow here means a slow server, not a short pool. Missing below three PINGs.", Expected: "< 0.01"},
		{Name: "ping_max_seconds", Unit: probes.Seconds, Help: "Longest round trip of these PINGs; long beside a short median means that the server, or the agent, stalls now and then.", Expected: "< 0.03"},
		{Name: "pings_slow", Help: "How many of these PINGs, of at most seven, took 50 ms or longer.", Expected: "0"},
		{Name: "connected_clients", Help: "Client connections of the server."},
		{Name: "maxclients", Help: "Limit of client connections."},
		{Name: "clients_ratio", Unit: probes.Ratio, Help: "connected_clients divided by maxclients.", Expected: "<= 0.8"},
		{Name: "blocked_clients", Help: "Clients that wait in a blocking command.", Expected: "0"},
		{Name: "rejected_connections_rate", Unit: probes.PerSecond, Help: "Connections refused for maxclients, per second over the window.", Expected: "0"},
		{Name: "new_connections_rate", Unit: probes.PerSecond, Help: "Connections accepted per second over the window; many mean that clients drop theirs."},
		{Name: "evicted_keys_rate", Unit: probes.PerSecond, Help: "Keys evicted for lack of memory, per second over the window.", Expected: "0"},
		{Name: "expired_keys_rate", Unit: probes.PerSecond, Help: "Keys that ended by their TTL, per second over the window."},
		{Name: "memory_used_bytes", Unit: probes.Bytes, Help: "Memory that the server uses."},
		{Name: "memory_max_bytes", Unit: probes.Bytes, Help: "Limit of that memory; 0 is unlimited."},
		{Name: "memory_ratio", Unit: probes.Ratio, Help: "memory_used_bytes divided by memory_max_bytes; missing when unlimited.", Expected: "< 0.95"},
		{Name: "server_hit_ratio", Unit: probes.Ratio, Help: "Key look-ups of all clients that found a key, over the window; missing below 500 look-ups."},
		{Name: "commands_rate", Unit: probes.PerSecond, Help: "Commands of all clients per second over the window."},
		{Name: "uptime_seconds", Unit: probes.Seconds, Help: "Time since the server started."},
	}
}

// clientFacts come from the service: Redis as it sees it.
func clientFacts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "hit_ratio", Unit: probes.Ratio, Help: "Names that the service found in Redis, of those that Redis answered, over the window; missing below 100 look-ups."},
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
		{Name: "pool_acquires_rate", Unit: probes.PerSecond, Help: "Connections taken from the pool per second over the window."},
		{Name: "pool_turnover_rate", Unit: probes.PerSecond, Help: "How often a connection of the pool changes hands per second: pool_acquires_rate divided by pool_size; near 0 with a full pool is a leak."},
		{Name: "pool_hold_seconds", Unit: probes.Seconds, Help: "Mean time that a command holds a connection, by Little's law: connections in use divided by pool_acquires_rate. In use are all of pool_size while callers queue and none is idle, else the mean of the samples. A fast server that is held long is a far one, a slow caller or a stall."},
	}
}

func names(docs []probes.FactDoc) []string {
	out := make([]string, 0, len(docs))
	for _, d := range docs {
		out = append(out, d.Name)
	}
	return out
}
