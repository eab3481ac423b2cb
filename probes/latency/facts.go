package latency

import "github.com/regpath/diagnose/probes"

// facts documents what the probe can return, over the window between two
// samples.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "check_rate", Unit: probes.PerSecond, Help: "Checks answered per second."},
		{Name: "check_seconds", Unit: probes.Seconds, Help: "Mean time of a check inside the service.", Expected: "<= 0.05"},
		{Name: "check_p50_seconds", Unit: probes.Seconds, Help: "Median time of a check, by its histogram.", Expected: "<= 0.01"},
		{Name: "check_p99_seconds", Unit: probes.Seconds, Help: "99 in 100 checks take no longer, by their histogram; at least, when it lies above the last bound.", Expected: "<= 0.1"},
		{Name: "check_error_ratio", Unit: probes.Ratio, Help: "Share of the checks that the service answered with an error of its own (5xx).", Expected: "0"},
		{Name: "check_redis_share", Unit: probes.Ratio, Help: "Share of the time of all checks that is spent in Redis."},
		{Name: "check_shard_share", Unit: probes.Ratio, Help: "Share of the time of all checks that is spent in the shards."},
		{Name: "bloom_answers_share", Unit: probes.Ratio, Help: "Share of the checks that the Bloom filter answered."},
		{Name: "local_answers_share", Unit: probes.Ratio, Help: "Share of the checks that the local cache answered."},
		{Name: "redis_answers_share", Unit: probes.Ratio, Help: "Share of the checks that Redis answered."},
		{Name: "shard_answers_share", Unit: probes.Ratio, Help: "Share of the checks that a shard answered.", Expected: "a few per cent"},
		{Name: "lookups_rate", Unit: probes.PerSecond, Help: "Checks per second that a shard was asked for."},
		{Name: "lookups_missing_share", Unit: probes.Ratio, Help: "Share of them whose name no shard had."},
		{Name: "stalled_share", Unit: probes.Ratio, Help: "Share of the time in which the service did not run though it wanted to, by delays of 10 ms and more of a timer of its own.", Expected: "<= 0.02"},
		{Name: "stall_seconds", Unit: probes.Seconds, Help: "Mean length of such a delay; unknown where there was none."},
		{Name: "register_rate", Unit: probes.PerSecond, Help: "Registrations answered per second."},
		{Name: "register_seconds", Unit: probes.Seconds, Help: "Mean time of a registration inside the service.", Expected: "<= 0.05"},
		{Name: "register_p99_seconds", Unit: probes.Seconds, Help: "99 in 100 registrations take no longer, as check_p99_seconds.", Expected: "<= 0.25"},
		{Name: "register_error_ratio", Unit: probes.Ratio, Help: "Share of the registrations that the service answered with an error of its own (5xx).", Expected: "0"},
		{Name: "register_shard_share", Unit: probes.Ratio, Help: "Share of the time of all registrations that is spent in the shards."},
		{Name: "register_redis_share", Unit: probes.Ratio, Help: "Share of the time of all registrations that is spent in Redis."},
		{Name: "register_followup_rate", Unit: probes.PerSecond, Help: "Follow-ups per second that registrations wait for.", Expected: "0"},
		{Name: "register_followup_share", Unit: probes.Ratio, Help: "Share of the time of all registrations that is spent on follow-ups, which should come after the answer.", Expected: "0"},
		{Name: "register_followup_seconds", Unit: probes.Seconds, Help: "Time that a registration spends on follow-ups, in the mean over all.", Expected: "0"},
	}
}
