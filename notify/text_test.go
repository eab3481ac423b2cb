package notify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func loadReport(t *testing.T, name string) playbooks.Report {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "reports", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r playbooks.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func render(t *testing.T, r playbooks.Report, o notify.TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := notify.Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextGolden(t *testing.T) {
	for _, name := range []string{"cause-found", "healthy", "inconclusive", "half-blind"} {
		for suffix, o := range map[string]notify.TextOptions{
			"":       {},
			".full":  {Detail: notify.Full},
			".color": {Color: true, Width: 60},
		} {
			t.Run(name+suffix, func(t *testing.T) {
				got := render(t, loadReport(t, name), o)
				file := filepath.Join("testdata", "text", name+suffix+".txt")
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("%s differs; got:\n%s\nwant:\n%s", file, got, want)
				}
			})
		}
	}
}

func TestTextFirstLine(t *testing.T) {
	t.Parallel()
	f := func(report, want string) {
		t.Helper()
		got, _, _ := strings.Cut(render(t, loadReport(t, report), notify.TextOptions{}), "\n")
		if got != want {
			t.Errorf("%s: first line %q, want %q", report, got, want)
		}
	}
	f("cause-found", "The query path writes to the Bloom filter (high confidence)")
	f("healthy", "Healthy: all four layers are within their limits")
	f("inconclusive", "Cannot tell: latency is up, and no known cause fits")
	f("half-blind", "Cannot tell: two of four layers could not be looked at")
}

func TestTextKeepsWidth(t *testing.T) {
	t.Parallel()
	for i, line := range strings.Split(render(t, loadReport(t, "cause-found"), notify.TextOptions{Width: 50, Detail: notify.Full}), "\n") {
		if n := len([]rune(line)); i > 0 && n > 50 {
			t.Errorf("line %d has %d columns, want at most 50: %q", i+1, n, line)
		}
	}
}

// A chain that bites its own tail, names what is not there, or has no root must
// neither hang nor lose a cause.
func TestSectionsChain(t *testing.T) {
	t.Parallel()
	cause := func(id string, role playbooks.Role, explains ...string) playbooks.Cause {
		return playbooks.Cause{ID: id, Title: id, Role: role, Explains: explains}
	}
	f := func(want string, causes ...playbooks.Cause) {
		t.Helper()
		var got []string
		for _, s := range notify.Sections(playbooks.Report{Causes: causes}, notify.Digest) {
			for _, i := range s.Items {
				got = append(got, i.String())
			}
		}
		if strings.Join(got, "|") != want {
			t.Errorf("chain %q, want %q", strings.Join(got, "|"), want)
		}
	}
	f("", cause("a", playbooks.Root))
	f("● a|  → b|    → c", cause("a", playbooks.Root, "b"), cause("b", playbooks.Consequence, "c", "a"), cause("c", playbooks.Consequence))
	f("● a|● b|  → c", cause("a", playbooks.Root, "nobody"), cause("b", playbooks.Root, "c"), cause("c", playbooks.Consequence))
	f("● a|○ b", cause("a", playbooks.Root), cause("b", playbooks.Note))
	f("● b|  → c", cause("b", playbooks.Consequence, "c"), cause("c", playbooks.Consequence, "b"))
}

// hostile returns a report with s in every string that can come from outside.
func hostile(s string) playbooks.Report {
	return playbooks.Report{
		ID: s, Playbook: s, Target: s, Verdict: playbooks.CauseFound, Summary: s,
		Trigger: playbooks.Trigger{Kind: s, Incident: s, Title: s, Severity: s},
		Causes: []playbooks.Cause{{
			ID: "a", Title: s, Role: playbooks.Root, Confidence: playbooks.Confidence(s), Explains: []string{"b", s}, Actions: []string{s, ""},
			Evidence: []playbooks.Observation{{Fact: s, Unit: probes.Unit(s), Expected: s, Source: s}},
			Disagree: []playbooks.Signal{{Condition: s}}, Unknown: []playbooks.Signal{{Condition: s}},
		}, {ID: "b", Title: s}},
		RuledOut: []playbooks.RuledOut{{ID: s, Title: s, Because: "b", Condition: s}},
		Gaps:     []playbooks.Gap{{Step: s, Reason: s, Facts: []string{s}}},
		Findings: []playbooks.Finding{{
			Step: s, Title: s, Summary: s, Because: s, Condition: s + ".", Error: s, Status: 99,
			Facts: []probes.Fact{{Name: s, Unit: probes.Unit(s)}},
			Rows:  []probes.Row{{Table: s, Key: s, Note: s}},
		}},
	}
}

var hostileStrings = map[string]string{
	"empty":     "",
	"blank":     " \n\t\r\v ",
	"ansi":      "\x1b[2J\x1b]0;owned\x07\x9b31m",
	"bidi":      "user\u202egpj.exe\u2066\u2069\u200f",
	"invisible": "lo\u200bve\u2060\ufeff\u00ad\u034f\ufe0f\U000e0041",
	"invalid":   "\xff\xfe\xc3(",
	"nul":       "a\x00b\x7f",
	"newlines":  "one\ntwo\u2028three\u2029four\u0085five",
	"long":      strings.Repeat("長い", 10000),
	"wide":      strings.Repeat("x", 20000),
}

func TestTextHostile(t *testing.T) {
	t.Parallel()
	for name, s := range hostileStrings {
		for _, d := range []notify.Detail{notify.Digest, notify.Full} {
			got := render(t, hostile(s), notify.TextOptions{Detail: d})
			for _, r := range got {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Errorf("%s: %U got through", name, r)
					break
				}
			}
			if len(got) > 100_000 {
				t.Errorf("%s: %d bytes, want it bounded", name, len(got))
			}
		}
	}
}

func TestTextShowsHiddenCharacters(t *testing.T) {
	t.Parallel()
	r := playbooks.Report{Findings: []playbooks.Finding{{Step: "s", Status: playbooks.Critical, Rows: []probes.Row{{Table: "top keys", Key: "lo\u200bve"}}}}}
	if got := render(t, r, notify.TextOptions{}); !strings.Contains(got, `lo\u200bve`) {
		t.Errorf("the hidden character of a key is not spelt out in:\n%s", got)
	}
}

// TestTextShowsConditionsInFull: a digest has the words, the details also the
// conditions behind them, and nothing twice.
func TestTextShowsConditionsInFull(t *testing.T) {
	t.Parallel()
	r := playbooks.Report{
		RuledOut: []playbooks.RuledOut{{Title: "R", Because: "it answers", Condition: "r.down (0) == 1"}, {Title: "S", Because: "s.x (1) > 2", Condition: "s.x (1) > 2"}},
		Findings: []playbooks.Finding{{Title: "F", Status: playbooks.Critical, Summary: "Bad.", Because: "it is high", Condition: "f.x (9) > 1"}},
	}
	digest := render(t, r, notify.TextOptions{})
	full := render(t, r, notify.TextOptions{Detail: notify.Full})
	for _, words := range []string{"R: it answers", "S: s.x (1) > 2", "because it is high"} {
		if !strings.Contains(digest, words) || !strings.Contains(full, words) {
			t.Errorf("%q is missing in:\n%s\n%s", words, digest, full)
		}
	}
	for _, condition := range []string{"condition: r.down (0) == 1", "condition: f.x (9) > 1"} {
		if strings.Contains(digest, condition) || !strings.Contains(full, condition) {
			t.Errorf("want %q in the details alone:\n%s\n%s", condition, digest, full)
		}
	}
	if strings.Count(full, "s.x (1) > 2") != 1 {
		t.Errorf("a condition that stands for itself is said twice:\n%s", full)
	}
}

func TestIncidentText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 4000) + "END"
	in := playbooks.Incident{HiddenAlerts: 5, Alerts: []playbooks.Alert{
		{Firing: true, Labels: map[string]string{"alertname": "A", "b\x1b": "1", "a": "2"}, Annotations: map[string]string{"description": long, "empty": " "}},
		{GeneratorURL: "javascript:alert(1)"},
	}}
	var b bytes.Buffer
	if err := notify.IncidentText(&b, in, notify.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{"2 alerts (and 5 more that the sender cut off)", "firing A", "resolved unnamed alert", `label b\x1b: 1`, "END", "from javascript:alert(1)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%.500s", want, got)
		}
	}
	if strings.Contains(got, "empty") {
		t.Error("an annotation without content is shown")
	}
	if strings.Index(got, "label a:") > strings.Index(got, "label alertname:") {
		t.Error("labels are not sorted")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func TestTextReturnsWriteError(t *testing.T) {
	t.Parallel()
	if err := notify.Text(failingWriter{}, playbooks.Report{}, notify.TextOptions{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want the writer's", err)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	f := func(summary, headline, want string) {
		t.Helper()
		if got := notify.Summary(playbooks.Report{Summary: summary}, headline); got != want {
			t.Errorf("Summary(%q) under %q = %q, want %q", summary, headline, got, want)
		}
	}
	f("", "x", "")
	f("All is well.", "Healthy: All is well", "")
	f("It broke. Redis is gone.", "Cannot tell: It broke", "Redis is gone.")
	f("It broke. Redis is gone.", "The filter is full", "It broke. Redis is gone.")
	f("Took 1.5 s", "x", "Took 1.5 s")
	f("Something is wrong: Redis stalls. More.", "Cannot tell: something is wrong: Redis stalls", "More.")
	f("Redis is down: it does not answer. More.", "Redis is down (high confidence)", "It does not answer. More.")
	f("A: b", "B", "A: b")
}

// TestChanged: what was changed shortly before is said right after the summary,
// unless all is well.
func TestChanged(t *testing.T) {
	t.Parallel()
	change := func(key string, age float64) probes.Row {
		return probes.Row{Table: "changes", Key: key, Value: age, Unit: probes.Seconds, Note: "config: 20 -> 2"}
	}
	f := func(want string, verdict playbooks.Verdict, rows ...probes.Row) {
		t.Helper()
		r := playbooks.Report{Verdict: verdict, Summary: "S.", Findings: []playbooks.Finding{{Step: "e", Rows: rows}}}
		if got := notify.Changed(r); got != want {
			t.Errorf("changed: got %q, want %q", got, want)
		}
	}
	f("Changed just before: redis_pool_size (config: 20 -> 2), 8 s ago", playbooks.CauseFound, change("redis_pool_size", 8), change("old", 601))
	f("Changed just before: a (config: 20 -> 2), 8 s ago; b (config: 20 -> 2), 9.98 min ago", playbooks.Inconclusive, change("a", 8), change("b", 599))
	f("", playbooks.Healthy, change("a", 8))
	f("", playbooks.Inconclusive, change("a", 601), probes.Row{Table: "errors", Key: "x", Value: 3})
	f("", playbooks.Inconclusive)
	got := render(t, playbooks.Report{Verdict: playbooks.Inconclusive, Summary: "One. Two.", Findings: []playbooks.Finding{{Rows: []probes.Row{change("a", 8)}}}}, notify.TextOptions{})
	if !strings.HasPrefix(got, "Cannot tell: one\nTwo.\nChanged just before: a") {
		t.Errorf("got %q, want the change after the summary", got)
	}
}

// TestDigestFolds: what a digest says of gaps it says once, and in a line what
// has no effect; the details have it all.
func TestDigestFolds(t *testing.T) {
	t.Parallel()
	gone := "the service does not answer (http://127.0.0.1:9: connection refused)"
	r := playbooks.Report{Gaps: []playbooks.Gap{
		{Step: "bloom", Reason: gone},
		{Step: "redis", Reason: gone + "; no Redis server is configured"},
		{Step: "errors", Reason: gone},
		{Step: "redis", Reason: "INFO does not tell it", Facts: []string{"redis.a", "redis.b"}, NoEffect: true},
		{Step: "shards", Reason: "no DSN", Facts: []string{"shards.c"}, NoEffect: true},
	}, RuledOut: []playbooks.RuledOut{{Title: "T", Because: strings.Repeat("because ", 100)}}}
	var got []string
	for _, s := range notify.Sections(r, notify.Digest) {
		for _, i := range s.Items {
			got = append(got, i.Text)
		}
	}
	want := []string{"bloom, redis, errors: " + gone, "redis: no Redis server is configured", "2 facts of redis, 1 fact of shards (no effect on what was found)"}
	if len(got) != 4 || strings.Join(got[:3], "|") != strings.Join(want, "|") || len(got[3]) > 100 {
		t.Errorf("got %q, want %q and one line of what is ruled out", got, want)
	}
	if full := render(t, r, notify.TextOptions{Detail: notify.Full}); strings.Count(full, "does not answer") != 3 || !strings.Contains(full, "redis.b") {
		t.Errorf("the details leave something out:\n%s", full)
	}
}

func TestUnknownRowHasNoNumber(t *testing.T) {
	t.Parallel()
	r := playbooks.Report{Findings: []playbooks.Finding{{Step: "b", Rows: []probes.Row{{Table: "existing names", Key: "shard3", Note: "could not be sampled", Unknown: true}}}}}
	for _, d := range []notify.Detail{notify.Digest, notify.Full} {
		if got := render(t, r, notify.TextOptions{Detail: d}); !strings.Contains(got, "shard3 (could not be sampled)") {
			t.Errorf("got:\n%s", got)
		}
	}
}
