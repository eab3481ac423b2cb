package shards

import (
	"slices"

	"github.com/regpath/diagnose/probes"
)

// facts documents what the probe can return.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "shards_total", Help: "Number of physical shards."},
		{Name: "unreachable", Help: "Shards that refuse the agent's own connection or do not answer its SELECT 1; at least, where some could not be asked.", Expected: "0"},
		{Name: "ping_seconds", Unit: probes.Seconds, Help: "Slowest round trip of a SELECT 1 on the agent's own connections, over all shards; slow here means a slow server. Missing when one does not answer.", Expected: "< 0.05"},
		{Name: "failing", Help: "Shards on which more than half of the service's requests failed over the window, of at least 10; at least, where some do not tell.", Expected: "0"},
		{Name: "requests_rate", Unit: probes.PerSecond, Help: "Requests of the service to all shards per second over the window."},
		{Name: "max_share", Unit: probes.Ratio, Help: "Share of the requests that went to the busiest shard over the window; missing below 200 requests."},
		{Name: "max_share_over_even", Help: "max_share divided by an even share: 1 is even; missing below 200 requests.", Expected: "<= 1.5"},
		{Name: "max_share_z_score", Help: "By how many standard errors the requests to the busiest shard are more than an even share e over the window, were they chance: (n - e)/√e (Poisson); missing below 200 requests.", Expected: "< 5"},
		{Name: "latency_max_seconds", Unit: probes.Seconds, Help: "Mean time of a request on the slowest shard, waiting for a connection included, over the window; shards with fewer than 20 requests are left out.", Expected: "< 0.05"},
		{Name: "latency_median_seconds", Unit: probes.Seconds, Help: "Median over the other shards of their mean time of a request."},
		{Name: "latency_skew", Help: "latency_max_seconds divided by latency_median_seconds: 1 is even.", Expected: "< 3"},
		{Name: "error_ratio", Unit: probes.Ratio, Help: "Share of the requests that failed over the window, over all shards.", Expected: "0"},
		{Name: "top_key_share", Unit: probes.Ratio, Help: "Share of the busiest shard's requests that its hottest key has for certain: (count - error)/total.", Expected: "< 0.2"},
		{Name: "top_key_excess_share", Unit: probes.Ratio, Help: "What part of the busiest shard's requests beyond an even share that key explains for certain; missing when requests are spread evenly."},
		{Name: "top_keys_excess_share", Unit: probes.Ratio, Help: "What part of them the three hottest keys explain together."},
		{Name: "pool_in_use_ratio", Unit: probes.Ratio, Help: "Connections in use divided by the size of the pool, on the worst shard, at the lower of the samples.", Expected: "< 0.9"},
		{Name: "pool_pending", Help: "Requests that wait for a connection in every sample, over all shards: a standing queue.", Expected: "0"},
		{Name: "pool_pending_worst", Help: "The same for the shard with the longest queue.", Expected: "0"},
		{Name: "pool_timeouts_rate", Unit: probes.PerSecond, Help: "Requests that ended without getting a connection, per second over the window, over all shards.", Expected: "0"},
		{Name: "pool_turnover_rate", Unit: probes.PerSecond, Help: "How often a connection of the worst shard's pool changes hands per second; near 0 with a full pool is a leak or a lock."},
		{Name: "pool_wait_seconds", Unit: probes.Seconds, Help: "Mean time that requests waited for a connection of the worst shard's pool, those in vain included, over the window; missing when none waited.", Expected: "< 0.01"},
		{Name: "pools_full", Help: "Shards whose pool is used up in both samples while requests wait.", Expected: "0"},
		{Name: "pools_stuck", Help: "Those of them whose connections change hands less than once in ten seconds.", Expected: "0"},
		{Name: "replica_lookups_rate", Unit: probes.PerSecond, Help: "Look-ups per second that the service sends to replicas of its shards, as far as it tells."},
	}
}

// agentFacts are those that come from the agent's own connections.
var agentFacts = []string{"unreachable", "ping_seconds"}

// serviceFacts are those that come from the service.
func serviceFacts() []string {
	var out []string
	for _, d := range facts() {
		if !slices.Contains(agentFacts, d.Name) {
			out = append(out, d.Name)
		}
	}
	return out
}
