package playbooks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/regpath/diagnose/playbooks"
)

var (
	update = flag.Bool("update", false, "write the golden reports anew")
	// A fact that a probe learns to measure is in no evidence of old. What a
	// service that is well would have shown is the best that can be said of it:
	// the base of the unit tests.
	backfill = flag.String("backfill", "", "give old evidence these facts and steps, as in the unit tests' base: redis.ping_seconds,postgres")
)

// measurements reads what a case saw: from its evidence or, of a live run, from
// the report, which is the recording.
func measurements(t testing.TB, dir string) []playbooks.Measurement {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "evidence.json"))
	if errors.Is(err, os.ErrNotExist) {
		return recorded(t, dir).Measurements()
	}
	if err != nil {
		t.Fatal(err)
	}
	var ms []playbooks.Measurement
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&ms); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return ms
}

// recorded reads the report of a case.
func recorded(t testing.TB, dir string) playbooks.Report {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := playbooks.ReadReport(data)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return r
}

// judged judges a case.
func judged(t testing.TB, p *playbooks.Playbook, dir string) playbooks.Report {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "evidence.json")); err != nil {
		return playbooks.Replay(p, recorded(t, dir))
	}
	return playbooks.Judge(p, measurements(t, dir))
}

func encode(t testing.TB, r playbooks.Report) []byte {
	t.Helper()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatalf("report does not encode: %v", err)
	}
	return append(data, '\n')
}

// written is a report as the folder of a case has it: a recording is one line.
func written(t testing.TB, dir string, r playbooks.Report) []byte {
	t.Helper()
	data := encode(t, r)
	if _, err := os.Stat(filepath.Join(dir, "evidence.json")); err == nil {
		return data
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		t.Fatal(err)
	}
	return append(line.Bytes(), '\n')
}

// schema returns a func that holds a report against the JSON Schema.
func schema(t testing.TB) func(data []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(playbooks.ReportSchema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("report.schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(data []byte) error {
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return err
		}
		return compiled.Validate(instance)
	}
}

// cases returns the folders of a playbook's goldens by name.
func cases(t testing.TB, playbook string) map[string]string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", playbook, "*"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]string{}
	for _, dir := range dirs {
		byName[filepath.Base(dir)] = dir
	}
	return byName
}

// TestGolden judges the evidence of every case of every shipped playbook.
func TestGolden(t *testing.T) {
	valid := schema(t)
	for _, p := range shipped(t) {
		for name, dir := range cases(t, p.Name) {
			t.Run(p.Name+"/"+name, func(t *testing.T) {
				if *backfill != "" {
					fillIn(t, p, dir, strings.Split(*backfill, ","))
				}
				got := written(t, dir, judged(t, p, dir))
				if err := valid(got); err != nil {
					t.Errorf("report does not fit the schema: %v", err)
				}
				file := filepath.Join(dir, "report.json")
				if *update {
					if err := os.WriteFile(file, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: got another report (go test -update writes it):\n%s", file, firstDifference(string(got), string(want)))
				}
			})
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer"
}

// TestVerdicts states, apart from the goldens, what each case must come to: a
// golden written anew cannot move these.
func TestVerdicts(t *testing.T) {
	p := shipped(t)[0]
	// The causes in rank order; ">" marks a consequence, "~" a note, "?" a suspicion.
	want := map[string]string{
		"well":                                   "healthy",
		"well-under-load":                        "healthy",
		"well-embedded":                          "healthy",
		"idle":                                   "inconclusive",
		"well-few-requests":                      "healthy",
		"sick-shard-down-idle":                   "cause-found shard-down:low",
		"lookalike-slow-shard-not-hot":           "inconclusive",
		"lookalike-redis-slow-not-pool":          "inconclusive",
		"lookalike-shard-disk-full":              "inconclusive",
		"lookalike-vacuum-blocked":               "inconclusive",
		"lookalike-filter-clusters":              "inconclusive",
		"two-undersized-and-error-after-change":  "cause-found error-after-change:high bloom-undersized:high",
		"well-high-fill":                         "healthy",
		"sick-bloom-undersized":                  "cause-found bloom-undersized:high",
		"sick-bloom-write-on-read":               "cause-found bloom-write-on-read:high",
		"sick-bloom-missing":                     "cause-found bloom-missing:high",
		"sick-hot-name":                          "cause-found hot-name:high",
		"sick-shard-down":                        "cause-found shard-down:high",
		"sick-shard-down-embedded":               "cause-found shard-down:high",
		"sick-redis-down":                        "cause-found redis-down:high",
		"sick-redis-down-embedded":               "cause-found redis-down:high",
		"sick-redis-pool-too-small":              "cause-found redis-pool-too-small:high",
		"sick-redis-pool-leak":                   "cause-found redis-pool-leak:high",
		"sick-error-after-change":                "cause-found error-after-change:high",
		"chain-saturated-filter-pool":            "cause-found bloom-undersized:high >redis-pool-too-small:high",
		"chain-write-on-read-pool":               "cause-found bloom-write-on-read:high >redis-pool-too-small:high",
		"two-leak-and-hot-name":                  "cause-found redis-pool-leak:high hot-name:high",
		"lookalike-redis-hung-not-leak":          "cause-found redis-down:high",
		"lookalike-skew-without-hot-name":        "cause-found shard-skew:high",
		"lookalike-redis-down-after-change":      "cause-found redis-down:high",
		"lookalike-hash-defect":                  "inconclusive",
		"lookalike-agent-cut-off-from-redis":     "inconclusive",
		"lookalike-agent-cut-off-from-shard":     "inconclusive",
		"lookalike-new-error-without-change":     "inconclusive",
		"half-blind-redis":                       "inconclusive",
		"half-blind-redis-undersized":            "cause-found bloom-undersized:high",
		"half-blind-bloom-pool":                  "inconclusive ?redis-pool-too-small:low",
		"half-blind-shards-hung-redis-pool-leak": "cause-found redis-pool-leak:high",
		"half-blind-bloom-verify-missing":        "inconclusive",
		"half-blind-errors-500":                  "inconclusive",
		"half-blind-everything":                  "inconclusive",

		// The servers of the shards.
		"sick-shard-lock-queue":                       "cause-found shard-lock-queue:high",
		"sick-shard-pool-leak":                        "cause-found shard-pool-leak:high >shard-down:low",
		"sick-shard-pool-too-small":                   "cause-found shard-pool-too-small:high",
		"sick-shard-skew":                             "cause-found shard-skew:high",
		"sick-shard-too-many-clients":                 "cause-found shard-too-many-clients:high",
		"sick-shard-conflict-storm":                   "cause-found shard-conflict-storm:high",
		"sick-shard-readonly":                         "cause-found shard-readonly:high",
		"sick-shard-replica-lag":                      "cause-found shard-replica-lag:high",
		"sick-shard-missing-index":                    "cause-found shard-missing-index:high",
		"sick-shard-routing-drift":                    "cause-found shard-routing-drift:high",
		"sick-pgbouncer-queue":                        "cause-found pgbouncer-queue:high >shard-pool-too-small:low",
		"chain-lock-queue-fills-pool":                 "cause-found shard-lock-queue:high >shard-down:low",
		"lookalike-delayed-replica-nobody-reads":      "healthy",
		"half-blind-postgres-and-stuck-pool":          "inconclusive",
		"sick-redis-pool-blocked":                     "cause-found redis-pool-blocked:high",
		"sick-redis-slow-command":                     "cause-found redis-slow-command:high",
		"sick-redis-persistence-stall":                "cause-found redis-persistence-stall:high",
		"sick-redis-maxclients":                       "cause-found redis-maxclients:high",
		"sick-redis-maxclients-agent-turned-away":     "cause-found redis-maxclients:high",
		"sick-redis-oom":                              "cause-found redis-oom:high",
		"sick-redis-misconf":                          "cause-found redis-misconf:high",
		"sick-redis-readonly":                         "cause-found redis-readonly:high >redis-conn-churn:high",
		"sick-redis-eviction":                         "cause-found redis-eviction:high",
		"sick-redis-conn-churn":                       "cause-found redis-conn-churn:high",
		"sick-client-starved":                         "cause-found client-starved:high",
		"sick-redis-pool-leak-of-a-part":              "cause-found redis-pool-leak:high >redis-pool-too-small:high",
		"lookalike-redis-stalls-not-slow-command":     "inconclusive",
		"lookalike-redis-stalls-for-seconds-not-down": "inconclusive",
		"half-blind-redis-refuses-writes":             "inconclusive",

		// What once was blamed on the wrong cause, or too surely.
		"lookalike-redis-stalls-not-pool":     "inconclusive",
		"lookalike-redis-stalls-not-leak":     "inconclusive",
		"sick-redis-pool-and-one-slow-ping":   "cause-found redis-pool-too-small:low",
		"note-hot-name-unharmed":              "healthy",
		"two-redis-down-and-a-note":           "cause-found redis-down:high",
		"sick-hot-name-all-on-one-shard":      "cause-found hot-name:high",
		"note-scale-before-disk-full":         "cause-found error-after-change:low",
		"sick-error-after-change-untied":      "cause-found error-after-change:medium",
		"sick-redis-down-storm-hides-change":  "cause-found redis-down:high",
		"half-blind-contradictory-pool":       "inconclusive",
		"lookalike-bloom-sample-of-one":       "inconclusive",
		"sick-bloom-missing-sample-of-twenty": "cause-found bloom-missing:medium",
		"half-blind-service-gone":             "inconclusive",

		"half-blind-checker-gone":                 "inconclusive",
		"half-blind-hung-redis-without-contract":  "cause-found redis-down:medium",
		"half-blind-error-after-change-and-redis": "cause-found error-after-change:medium",

		// Names that the filter lacks, caches that hold nothing back, and traffic.
		"sick-bloom-hash-mismatch":        "cause-found bloom-hash-mismatch:high",
		"sick-bloom-lost-adds":            "cause-found bloom-lost-adds:medium",
		"sick-bloom-lost-adds-dropped":    "cause-found bloom-lost-adds:high",
		"sick-bloom-canary-invalid":       "cause-found bloom-canary-invalid:high",
		"lookalike-metric-bug-not-filter": "healthy",
		"sick-cache-stampede":             "cause-found cache-stampede:high",
		"sick-cache-penetration":          "cause-found cache-penetration:high",
		"sick-cache-cold":                 "cause-found cache-cold:high",
		"well-cold-cache":                 "healthy",
		"sick-bot-flood":                  "cause-found bot-flood:high",
		"sick-traffic-surge":              "cause-found traffic-surge:high",
		"well-promotion":                  "healthy",
		"sick-sync-followups":             "cause-found sync-followups:high",
		"sick-cache-negative-stale":       "cause-found cache-negative-stale:high",
		"sick-clock-rollback":             "cause-found clock-rollback:high",
		"sick-worker-id-collision":        "cause-found worker-id-collision:high",
		"sick-state-bypass":               "cause-found state-bypass:high",

		// Live runs of the demo on a busy machine, embedded and on real servers;
		// of the starved ones the machine was overloaded on purpose. The pools were
		// recorded before the PINGs were spread: whether Redis stalled is not known.
		"live-healthy-1":         "healthy",
		"live-healthy-2":         "healthy",
		"live-healthy-3":         "healthy",
		"live-healthy-4":         "inconclusive",
		"live-starved-healthy-1": "inconclusive",
		"live-starved-healthy-2": "inconclusive",
		"live-starved-pool-1":    "inconclusive",
		"live-redis-pool-1":      "cause-found redis-pool-too-small:medium",
		"live-redis-pool-2":      "cause-found redis-pool-too-small:medium",
		"live-redis-pool-3":      "cause-found redis-pool-too-small:medium",
		"live-redis-pool-4":      "cause-found redis-pool-too-small:medium",
		"live-redis-pool-5":      "cause-found redis-pool-too-small:medium",
		"live-redis-pool-6":      "cause-found redis-pool-too-small:medium",
		"live-hot-name-1":        "cause-found hot-name:high",
		"live-hot-name-2":        "cause-found hot-name:low",
		"live-hot-name-3":        "cause-found hot-name:low",
		"live-hot-name-4":        "cause-found hot-name:low",

		// Live runs of the accuracy suite, one for each cause, hurt from outside.
		"live-bloom-canary-invalid":          "cause-found bloom-canary-invalid:high",
		"live-bloom-hash-mismatch":           "cause-found bloom-hash-mismatch:high",
		"live-bloom-lost-adds":               "cause-found bloom-lost-adds:high",
		"live-bloom-missing":                 "cause-found bloom-missing:high",
		"live-bot-flood":                     "cause-found bot-flood:low",
		"live-traffic-surge":                 "cause-found traffic-surge:high",
		"live-well-hot-but-few":              "healthy",
		"live-redis-conn-churn-no-error":     "cause-found redis-conn-churn:low",
		"live-redis-conn-churn-few":          "cause-found redis-conn-churn:low",
		"live-cache-negative-stale":          "cause-found cache-negative-stale:high",
		"live-cache-penetration":             "cause-found cache-penetration:high",
		"live-clock-rollback":                "cause-found clock-rollback:medium",
		"live-pgbouncer-queue":               "cause-found pgbouncer-queue:high",
		"live-leak-redis-refused":            "inconclusive",
		"live-leak-redis-hangs":              "inconclusive",
		"live-redis-maxclients":              "cause-found redis-maxclients:low",
		"live-redis-oom":                     "cause-found redis-oom:high",
		"live-redis-oom-evicts":              "cause-found redis-oom:medium >redis-eviction:medium",
		"live-redis-persistence-stall-unmet": "cause-found redis-persistence-stall:medium",
		"live-redis-persistence-stall":       "cause-found redis-persistence-stall:high",
		"live-redis-pool-blocked":            "cause-found redis-pool-blocked:high",
		"live-redis-pool-embedded":           "cause-found redis-pool-too-small:high",
		"live-redis-pool-free-for-a-moment":  "cause-found redis-pool-too-small:high",
		"live-shard-down-embedded":           "cause-found shard-down:high",
		"live-redis-readonly":                "cause-found redis-readonly:high >redis-conn-churn:high",
		"live-shard-conflict-storm":          "cause-found shard-conflict-storm:high",
		"live-shard-lock-queue":              "cause-found shard-lock-queue:high",
		"live-shard-missing-index":           "cause-found shard-missing-index:high",
		"live-shard-pool-leak":               "cause-found shard-pool-leak:high >shard-down:low",
		"live-shard-pool-too-small":          "cause-found shard-pool-too-small:low",
		"live-shard-readonly":                "cause-found shard-readonly:high",
		"live-shard-replica-lag":             "cause-found shard-replica-lag:high",
		"live-shard-routing-drift":           "cause-found shard-routing-drift:high",
		"live-shard-skew":                    "cause-found shard-skew:high",
		"live-shard-too-many-clients":        "cause-found shard-too-many-clients:high >shard-down:high",
		"live-state-bypass":                  "cause-found state-bypass:medium",
		"live-sync-followups":                "cause-found sync-followups:high",
		"live-well-cold-start-of-everything": "healthy",
		"live-well-empty-system":             "healthy",
		"live-well-slow-but-healthy-shard":   "healthy",
		"live-worker-id-collision":           "cause-found worker-id-collision:high",
		"live-worker-id-collision-2":         "cause-found worker-id-collision:high >shard-conflict-storm:low",
	}
	got := map[string]string{}
	for name, dir := range cases(t, p.Name) {
		got[name] = outline(playbooks.Judge(p, measurements(t, dir)))
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: got %q, want %q", name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: got %q, and no test says what is right", name, got[name])
		}
	}
}

// outline is a report in one line.
func outline(r playbooks.Report) string {
	words := []string{string(r.Verdict)}
	for _, c := range r.Causes {
		mark := ""
		switch {
		case c.Role == playbooks.Note:
			mark = "~"
		case c.Role == playbooks.Consequence:
			mark = ">"
		case r.Verdict == playbooks.Inconclusive:
			mark = "?"
		}
		words = append(words, mark+c.ID+":"+string(c.Confidence))
	}
	return strings.Join(words, " ")
}

// TestEveryCauseHasGoldens lists what is shipped, so that no playbook and no
// cause can be without a sick and a well case.
func TestEveryCauseHasGoldens(t *testing.T) {
	for _, p := range shipped(t) {
		byName := cases(t, p.Name)
		reports := map[string]playbooks.Report{}
		for name, dir := range byName {
			reports[name] = playbooks.Judge(p, measurements(t, dir))
		}
		if r, ok := reports["well"]; !ok || r.Verdict != playbooks.Healthy {
			t.Errorf("%s: no well case that is healthy", p.Name)
		}
		for _, h := range p.Causes {
			sick, ok := reports["sick-"+h.ID]
			if !ok || len(sick.Causes) == 0 || sick.Causes[0].ID != h.ID {
				t.Errorf("%s: no case sick-%s with that root", p.Name, h.ID)
			}
			if !slices.ContainsFunc(reports["well"].RuledOut, func(r playbooks.RuledOut) bool { return r.ID == h.ID }) {
				t.Errorf("%s: the well case does not rule out %s", p.Name, h.ID)
			}
		}
		for name := range byName {
			if !strings.HasPrefix(name, "half-blind") {
				continue
			}
			if len(reports[name].Gaps) == 0 {
				t.Errorf("%s/%s: half-blind without a gap", p.Name, name)
			}
		}
	}
}
