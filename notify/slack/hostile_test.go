package slack_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// hostileReport has s in every string that can come from outside.
func hostileReport(s string) *playbooks.Report {
	return &playbooks.Report{
		ID: s, Playbook: s, Target: s, Verdict: playbooks.CauseFound, Summary: s,
		Trigger: playbooks.Trigger{Kind: s, Incident: s, Title: s, Severity: s},
		Causes: []playbooks.Cause{{
			ID: "a", Title: s, Role: playbooks.Root, Confidence: playbooks.Confidence(s), Explains: []string{"b", s}, Actions: []string{s, s, s},
			Evidence: []playbooks.Observation{{Fact: s, Unit: probes.Unit(s), Expected: s, Source: s}, {Fact: s + "2"}},
			Disagree: []playbooks.Signal{{Condition: s}}, Unknown: []playbooks.Signal{{Condition: s}},
		}, {ID: "b", Title: s}},
		RuledOut: []playbooks.RuledOut{{ID: s, Title: s, Because: s}, {ID: s}},
		Gaps:     []playbooks.Gap{{Step: s, Reason: s, Facts: []string{s, s}}},
		Findings: []playbooks.Finding{{
			Step: s, Title: s, Summary: s, Because: s, Status: playbooks.Critical,
			Facts: []probes.Fact{{Name: s, Unit: probes.Unit(s)}},
			Rows:  []probes.Row{{Table: s, Key: s, Note: s}, {Table: s, Key: s}},
		}, {Step: s, Error: s}},
	}
}

func hostileIncident(s string) playbooks.Incident {
	return playbooks.Incident{
		ID: "inc-1", Title: s, Severity: s, Playbook: s, Target: s, StartedAt: began,
		Alerts: []playbooks.Alert{{
			Labels: map[string]string{"alertname": s, s: s}, Annotations: map[string]string{"summary": s, s: s},
			GeneratorURL: "http://h/" + s,
		}},
	}
}

func TestHostile(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"empty": "", "blank": " \n\t\u2003", "ansi": "\x1b[31m\x9b0m\x07", "nul": "\x00",
		"bidi": "a\u202eb\u2066", "zero width": "lo\u200bve\ufeff", "not utf-8": "\xff\xfe<\xc3",
		"20,000 runes": strings.Repeat("長&", 10000), "20,000 backticks": strings.Repeat("`", 20000),
		"emoji": strings.Repeat("👩‍👩‍👧", 3000), "angle": strings.Repeat("<", 5000), "markup": "*bold* _it_ ~no~ `code` > quote",
		"line ends": strings.Repeat("\r\n\u2028`", 3000), "entities": strings.Repeat("&amp;", 4000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deliver(t, hostileIncident(s), hostileReport(s))
		})
	}
}

// Every table a report may hold, grown beyond all measure, still goes out.
func TestHuge(t *testing.T) {
	t.Parallel()
	r := loadReport(t, "cause-found")
	for range 500 {
		r.Findings = append(r.Findings, r.Findings[2])
		r.Gaps = append(r.Gaps, playbooks.Gap{Step: "s", Reason: "r"})
		r.RuledOut = append(r.RuledOut, r.RuledOut[0])
		r.Causes = append(r.Causes, r.Causes[0])
		r.Findings[2].Rows = append(r.Findings[2].Rows, r.Findings[2].Rows[0])
	}
	s := deliver(t, incident(), r)
	pages := s.Replies(botMessage(t, s))
	if len(pages) != 8 {
		t.Errorf("%d pages of details, want the limit of 8", len(pages))
	}
	if last := pages[len(pages)-1].Text; !strings.Contains(last, "more lines are left out") {
		t.Errorf("the last page does not say that something is left out: …%s", last[len(last)-100:])
	}
}

// Every report the judge is tested with is said within the limits, its cause in
// the first line.
func TestRealReports(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "playbooks", "testdata", "*", "*", "report.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d reports: %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r playbooks.Report
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want := map[playbooks.Verdict]string{playbooks.Healthy: "Healthy: ", playbooks.Inconclusive: "Cannot tell: "}[r.Verdict]
		if r.Verdict == playbooks.CauseFound {
			want = r.Causes[0].Title
		}
		s := slacktest.Start(t)
		must(t, newBot(t, s), notify.Notice{Incident: incident(), Phase: notify.Reported, Report: &r})
		if got := only(t, s).FirstLine(); !strings.Contains(got, want) {
			t.Errorf("%s: first line %q, want %q in it", file, got, want)
		}
		for _, c := range s.Calls() {
			if c.Error != "" {
				t.Errorf("%s: %s was refused: %s", file, c.Method, c.Error)
			}
		}
		clean(t, s)
	}
}
