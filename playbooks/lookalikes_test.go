package playbooks_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/regpath/diagnose/playbooks"
)

// member is one of several faults that look the same from outside.
type member struct {
	golden string // the case that shows it
	cause  string // what it must come to; empty where nothing may be blamed
}

// lookalikes are groups of faults that share a symptom. Of a group no member may
// be taken for another.
func lookalikes() map[string][]member {
	return map[string][]member{
		"Redis times out": {
			{"sick-redis-down", "redis-down"},
			{"sick-redis-pool-too-small", "redis-pool-too-small"},
			{"sick-redis-pool-leak", "redis-pool-leak"},
			{"sick-redis-pool-leak-of-a-part", "redis-pool-leak"},
			{"sick-redis-pool-blocked", "redis-pool-blocked"},
			{"sick-redis-slow-command", "redis-slow-command"},
			{"sick-redis-persistence-stall", "redis-persistence-stall"},
			{"sick-redis-maxclients", "redis-maxclients"},
			{"sick-redis-conn-churn", "redis-conn-churn"},
			{"sick-client-starved", "client-starved"},
		},
		"writes fail and reads do not": {
			{"sick-redis-oom", "redis-oom"},
			{"sick-redis-misconf", "redis-misconf"},
			{"sick-redis-readonly", "redis-readonly"},
			{"sick-shard-readonly", "shard-readonly"},
			{"sick-clock-rollback", "clock-rollback"},
			{"lookalike-shard-disk-full", ""}, // of which no cause tells
		},
		"one shard is slow": {
			{"sick-hot-name", "hot-name"},
			{"sick-shard-skew", "shard-skew"},
			{"sick-shard-lock-queue", "shard-lock-queue"},
			{"sick-shard-pool-leak", "shard-pool-leak"},
			{"sick-shard-missing-index", "shard-missing-index"},
			{"sick-shard-replica-lag", "shard-replica-lag"},
			{"sick-shard-down", "shard-down"},
			{"lookalike-slow-shard-not-hot", ""}, // a slow disk
			{"lookalike-vacuum-blocked", ""},     // of which no cause tells
		},
		// Registrations of names that were shown as free fail on a unique index.
		"a wave of unique violations": {
			{"sick-shard-conflict-storm", "shard-conflict-storm"},
			{"sick-shard-replica-lag", "shard-replica-lag"},
			{"sick-bloom-missing", "bloom-missing"},
			{"sick-bloom-hash-mismatch", "bloom-hash-mismatch"},
			{"sick-bloom-lost-adds", "bloom-lost-adds"},
			{"sick-bloom-lost-adds-dropped", "bloom-lost-adds"},
			{"sick-cache-negative-stale", "cache-negative-stale"},
			{"sick-bot-flood", "bot-flood"},
			{"sick-clock-rollback", "clock-rollback"},
			{"sick-worker-id-collision", "worker-id-collision"},
			{"sick-state-bypass", "state-bypass"},
		},
		"the shards are asked more than before": {
			{"sick-bloom-undersized", "bloom-undersized"},
			{"sick-bloom-write-on-read", "bloom-write-on-read"},
			{"sick-cache-stampede", "cache-stampede"},
			{"sick-cache-penetration", "cache-penetration"},
			{"sick-cache-cold", "cache-cold"},
			{"sick-redis-eviction", "redis-eviction"},
			{"sick-shard-missing-index", "shard-missing-index"},
			{"sick-hot-name", "hot-name"},
			{"sick-redis-down", "redis-down"},
			{"sick-traffic-surge", "traffic-surge"},
			{"sick-bot-flood", "bot-flood"},
			{"well-promotion", ""},
			{"well-cold-cache", ""},
		},
		"the false-positive rate looks terrible": {
			{"sick-bloom-undersized", "bloom-undersized"},
			{"sick-bloom-write-on-read", "bloom-write-on-read"},
			{"lookalike-hash-defect", ""},                         // the hash of the filter itself
			{"lookalike-filter-clusters", ""},                     // names whose bits fall together
			{"sick-bloom-canary-invalid", "bloom-canary-invalid"}, // the test
			{"lookalike-metric-bug-not-filter", ""},               // a ratio of the wrong counters
		},
	}
}

// TestLookalikes walks every group: each member comes to its own cause, and every
// other cause of the group is ruled out by name or follows from it.
func TestLookalikes(t *testing.T) {
	t.Parallel()
	p := shipped(t)[0]
	for symptom, members := range lookalikes() {
		t.Run(symptom, func(t *testing.T) {
			t.Parallel()
			for _, m := range members {
				r := judged(t, p, filepath.Join("testdata", p.Name, m.golden))
				var roots, effects []string
				for _, c := range r.Causes {
					switch c.Role {
					case playbooks.Root:
						roots = append(roots, c.ID)
					case playbooks.Consequence:
						effects = append(effects, c.ID)
					case playbooks.Note:
					}
				}
				var want []string
				if m.cause != "" {
					want = []string{m.cause}
				}
				if !slices.Equal(roots, want) {
					t.Errorf("%s: got %q, want %q", m.golden, roots, want)
				}
				for _, other := range members {
					out := slices.ContainsFunc(r.RuledOut, func(x playbooks.RuledOut) bool { return x.ID == other.cause && x.Because != "" })
					if other.cause != "" && other.cause != m.cause && !out && !slices.Contains(effects, other.cause) {
						t.Errorf("%s: %s is neither ruled out nor explained", m.golden, other.cause)
					}
				}
			}
		})
	}
}
