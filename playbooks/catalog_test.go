package playbooks_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// factNames is what the real probes document, by kind; the units follow from
// the names. The program's own test loads the shipped playbooks against the
// real catalog.
var factNames = map[string]string{
	"bloom": `fill_ratio predicted_fp_rate fp_rate fp_rate_low fp_rate_high target_fp_rate fp_rate_over_target
		canaries_tested canaries_distinct_ratio capacity names_added capacity_used_ratio headroom_names query_adds
		query_adds_share register_adds registrations lost_adds lost_adds_share unexplained_adds_share positives_tested
		positives_missing latest_tested latest_missing group_tested group_missing_share group_known_after
		others_missing_share canaries_refused_ratio age_seconds`,
	"rediscache": `reachable hung turned_away oom_errors_rate misconf_errors_rate readonly_errors_rate replica save_failed noeviction
		server_command_seconds server_cpu_share slow_command_share slow_command_seconds forks fork_seconds persistence_share
		delayed_fsyncs slow_log_share slow_log_max_seconds persistence_stall_seconds service_connections service_blocked service_idle
		service_answer_seconds pool_dials_rate ping_seconds ping_max_seconds pings_slow connected_clients maxclients clients_ratio blocked_clients
		rejected_connections_rate new_connections_rate evicted_keys_rate expired_keys_rate memory_used_bytes
		memory_max_bytes memory_ratio server_hit_ratio commands_rate uptime_seconds hit_ratio lookups_rate command_rate
		command_seconds errors_rate error_ratio pool_size pool_in_use pool_idle pool_pending pool_in_use_ratio
		pool_pending_min pool_idle_max pool_waits_rate pool_wait_seconds pool_timeouts_rate pool_acquires_rate pool_turnover_rate
		pool_hold_seconds`,
	"shards": `shards_total unreachable ping_seconds failing requests_rate max_share max_share_over_even max_share_z_score latency_max_seconds
		latency_median_seconds latency_skew error_ratio top_key_share top_key_excess_share top_keys_excess_share pool_in_use_ratio pool_pending
		pool_pending_worst pool_timeouts_rate pool_turnover_rate pool_wait_seconds pools_full pools_stuck
		replica_lookups_rate`,
	"postgres": `shards_configured shards_asked slots_refused sessions sessions_limit sessions_ratio
		top_client_share lock_waiters shards_locked blocker_seconds blocker_idle idle_transactions
		idle_transaction_seconds transaction_seconds busy_sessions slow_statements service_idle_sessions commits_rate rollbacks_rate
		deadlocks read_only standbys replicas replay_lag_seconds replay_lag_bytes
		sequence_used_ratio sequence_burn_rate inserts_rate failed_inserts_rate dead_rows_ratio unindexed_tables
		table_scans table_scan_rows table_scan_share names_routed names_misplaced routing_differs
		bouncers_configured bouncer_waiting bouncer_wait_seconds bouncer_servers`,
	"errlog": `errors_rate baseline_rate errors groups new_groups new_errors new_errors_share redis_errors shard_errors
		other_errors id_conflict_errors bypass_errors new_other_errors seconds_since_change seconds_change_to_first_new_error change_before_new_errors
		change_tied change_of_behaviour seconds_since_recent_change read_only_errors conflict_errors slot_errors pooler_errors shard_refusals new_errors_ended new_other_errors_ended`,
	"clock":       `offset_seconds ids_rate ids_behind_seconds ids_refused_rate ids_waits_rate ids_spare_rate`,
	"consistency": `names_compared latest_compared redis_asked redis_free local_asked local_free released released_too_early`,
	"traffic": `checks_rate registrations_rate baseline_seconds baseline_checks_rate baseline_registrations_rate
		checks_over_baseline registrations_over_baseline distinct_name_ratio sources top_source_share top_source_rate
		top_source_excess_share lookups lookups_per_name`,
	"latency": `check_rate check_seconds check_p50_seconds check_p99_seconds check_error_ratio check_redis_share
		check_shard_share bloom_answers_share local_answers_share redis_answers_share shard_answers_share lookups_rate
		lookups_missing_share register_rate register_seconds register_p99_seconds register_error_ratio
		register_shard_share register_redis_share register_followup_share register_followup_seconds
		register_followup_rate stalled_share stall_seconds`,
}

// tableNames are the tables of the real probes, by kind.
var tableNames = map[string][]string{
	"bloom": {"existing names", "name groups"}, "rediscache": {"redis server", "slow commands", "clients"}, "errlog": {"changes", "errors"},
	"traffic": {"sources"}, "latency": {"layers"}, "consistency": {"not compared"},
	"shards":   {"failing", "busiest", "slowest", "full pools", "shards", "top keys"},
	"postgres": {"clients", "blockers", "full servers", "read-only", "behind", "scans", "failed rows", "misplaced", "pooler queues", "sessions"},
}

// boolNames are the facts that are true or false.
var boolNames = []string{
	"reachable", "hung", "turned_away", "replica", "save_failed", "noeviction", "change_before_new_errors", "change_tied",
	"change_of_behaviour", "blocker_idle",
}

func unitOf(name string) probes.Unit {
	switch {
	case strings.Contains(name, "_over_"):
		return probes.Count
	case strings.HasSuffix(name, "fp_rate"), strings.Contains(name, "fp_rate_"), strings.HasSuffix(name, "_ratio"),
		strings.HasSuffix(name, "_share"):
		return probes.Ratio
	case strings.HasPrefix(name, "seconds_"), strings.HasSuffix(name, "_seconds"):
		return probes.Seconds
	case strings.HasSuffix(name, "_bytes"):
		return probes.Bytes
	case strings.HasSuffix(name, "_rate"):
		return probes.PerSecond
	case slices.Contains(boolNames, name):
		return probes.Bool
	}
	return probes.Count
}

// check is a probe that is a func.
type check func(ctx context.Context) (probes.Evidence, error)

func (c check) Check(ctx context.Context) (probes.Evidence, error) { return c(ctx) }

func nothing(context.Context) (probes.Evidence, error) { return probes.Evidence{}, nil }

// kind makes a kind of probe without options.
func kind(facts string, p probes.Probe) probes.Kind {
	k := probes.Kind{New: func(func(any) error) (probes.Probe, error) { return p, nil }}
	for name := range strings.FieldsSeq(facts) {
		k.Facts = append(k.Facts, probes.FactDoc{Name: name, Unit: unitOf(name), Help: "test", Signed: name == "headroom_names" || name == "offset_seconds" || name == "x"})
	}
	return k
}

func catalog() probes.Catalog {
	c := probes.Catalog{}
	for name, facts := range factNames {
		k := kind(facts, check(nothing))
		k.Tables = tableNames[name]
		c[name] = k
	}
	return c
}

func shipped(t testing.TB) []*playbooks.Playbook {
	t.Helper()
	files, err := playbooks.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	ps, err := playbooks.Load(catalog(), files...)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// load compiles one playbook of the tests.
func load(t testing.TB, c probes.Catalog, text string) *playbooks.Playbook {
	t.Helper()
	ps, err := playbooks.Load(c, playbooks.File{Name: "test.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return ps[0]
}
