package traffic

import "github.com/regpath/diagnose/probes"

// facts documents what the probe can return. "Of late" is the last ten seconds
// or so, "before" the quarter of an hour that ends half a minute ago.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "checks_rate", Unit: probes.PerSecond, Help: "Checks per second of late."},
		{Name: "registrations_rate", Unit: probes.PerSecond, Help: "Registrations asked for per second of late."},
		{Name: "baseline_seconds", Unit: probes.Seconds, Help: "How much time the rates before are the median of; 0 in the first minute of a service."},
		{Name: "baseline_checks_rate", Unit: probes.PerSecond, Help: "Checks per second before."},
		{Name: "baseline_registrations_rate", Unit: probes.PerSecond, Help: "Registrations asked for per second before."},
		{Name: "checks_over_baseline", Help: "checks_rate divided by baseline_checks_rate.", Expected: "about 1"},
		{Name: "registrations_over_baseline", Help: "registrations_rate divided by baseline_registrations_rate.", Expected: "about 1"},
		{Name: "distinct_name_ratio", Unit: probes.Ratio, Help: "Different names divided by requests, over the last half minute to minute; near 1 when every name is asked for once."},
		{Name: "sources", Help: "Different addresses that requests come from; 1 where the service cannot tell its clients apart."},
		{Name: "top_source_share", Unit: probes.Ratio, Help: "Share of the requests that come from the busiest address, at least.", Expected: "a few per cent"},
		{Name: "top_source_rate", Unit: probes.PerSecond, Help: "Requests per second of late from the busiest address, at least."},
		{Name: "top_source_excess_share", Unit: probes.Ratio, Help: "Share of what there is more than before that the busiest address accounts for; 0 when there is no more."},
		{Name: "lookups", Help: "How often the shards were asked for a name over the last half minute to minute."},
		{Name: "lookups_per_name", Help: "How often the shards were asked for one name, in the mean over the names that they were asked for; a cache that works keeps it near 1.", Expected: "about 1"},
	}
}
