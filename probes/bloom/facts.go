package bloom

import "github.com/regpath/diagnose/probes"

// facts documents what the probe can return.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "fill_ratio", Unit: probes.Ratio, Help: "Share of the filter's bits that are set: set_bits/m.", Expected: "<= 0.52"},
		{Name: "predicted_fp_rate", Unit: probes.Ratio, Help: "False-positive rate that follows from the fill: fill^k.", Expected: "<= target_fp_rate"},
		{Name: "fp_rate", Unit: probes.Ratio, Help: "Measured false-positive rate: share of fresh names that cannot exist and that the filter holds for taken.", Expected: "<= target_fp_rate"},
		{Name: "fp_rate_low", Unit: probes.Ratio, Help: "Lower end of the 95 % Wilson interval of fp_rate.", Expected: "<= target_fp_rate"},
		{Name: "fp_rate_high", Unit: probes.Ratio, Help: "Upper end of the 95 % Wilson interval of fp_rate."},
		{Name: "target_fp_rate", Unit: probes.Ratio, Help: "False-positive rate that the filter was sized for."},
		{Name: "fp_rate_over_target", Help: "fp_rate divided by target_fp_rate; 1 is as designed.", Expected: "<= 1.25"},
		{Name: "canaries_tested", Help: "How many names that cannot exist were tested for fp_rate."},
		{Name: "canaries_distinct_ratio", Unit: probes.Ratio, Help: "Share of the tested names that are still different from each other in canonical form.", Expected: ">= 0.99"},
		{Name: "capacity", Help: "How many names the filter was sized for."},
		{Name: "names_added", Help: "How many names were added to this generation of the filter, from all sources."},
		{Name: "capacity_used_ratio", Unit: probes.Ratio, Help: "names_added divided by capacity; above 1 the filter is overfull.", Expected: "<= 0.8"},
		{Name: "headroom_names", Signed: true, Help: "capacity minus names_added; negative when the filter is overfull.", Expected: "> 0"},
		{Name: "query_adds", Help: "How many names the query path added; only a committed registration may add.", Expected: "0"},
		{Name: "query_adds_share", Unit: probes.Ratio, Help: "Share of names_added that came from the query path.", Expected: "0"},
		{Name: "register_adds", Help: "How many names were added after a registration."},
		{Name: "registrations", Help: "How many registrations were committed since the filter was built."},
		{Name: "lost_adds", Help: "How many registrations more than adds after a registration there were: names that never reached the filter.", Expected: "0"},
		{Name: "lost_adds_share", Unit: probes.Ratio, Help: "lost_adds divided by registrations; 0 without registrations.", Expected: "0"},
		{Name: "unexplained_adds_share", Unit: probes.Ratio, Help: "Share of names_added that neither the build nor registrations account for.", Expected: "0"},
		{Name: "positives_tested", Help: "How many existing names were tested against the filter."},
		{Name: "positives_missing", Help: "How many of them the filter does not know; a Bloom filter cannot have any.", Expected: "0"},
		{Name: "latest_tested", Help: "How many of the service's latest registrations were tested against the filter."},
		{Name: "latest_missing", Help: "How many of them the filter does not know.", Expected: "0"},
		{Name: "group_tested", Help: "How many existing names were tested of the kind (by writer, by characters) of which the largest share is missing."},
		{Name: "group_missing_share", Unit: probes.Ratio, Help: "Share of that kind's names that the filter does not know; kinds of at least 20 names count.", Expected: "0"},
		{Name: "group_known_after", Help: "How many names of that kind are younger than its youngest missing one, and known."},
		{Name: "others_missing_share", Unit: probes.Ratio, Help: "Share of the names of all other kinds that the filter does not know; missing when there are not 20.", Expected: "0"},
		{Name: "canaries_refused_ratio", Unit: probes.Ratio, Help: "Share of the names that cannot exist that the service refuses to test: their namespace is not reserved.", Expected: "0"},
		{Name: "age_seconds", Unit: probes.Seconds, Help: "Time since the filter was built."},
	}
}
