package playbooks_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// again writes a report down, reads it and judges it anew.
func again(t testing.TB, p *playbooks.Playbook, r playbooks.Report) playbooks.Report {
	t.Helper()
	read, err := playbooks.ReadReport(encode(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return playbooks.Replay(p, read)
}

// TestReplayGoldens: a report is a recording that loses nothing.
func TestReplayGoldens(t *testing.T) {
	for _, p := range shipped(t) {
		for name, dir := range cases(t, p.Name) {
			want, err := os.ReadFile(filepath.Join(dir, "report.json"))
			if err != nil {
				t.Fatal(err)
			}
			recorded, err := playbooks.ReadReport(want)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := written(t, dir, playbooks.Replay(p, recorded)); !bytes.Equal(got, want) {
				t.Errorf("%s: replay differs:\n%s", name, firstDifference(string(got), string(want)))
			}
		}
	}
}

// TestReplayKeepsTheRun: replay changes the judgement, never what happened.
func TestReplayKeepsTheRun(t *testing.T) {
	p := shipped(t)[0]
	runner := playbooks.Runner{NewID: func() string { return "r1" }}
	r := runner.Run(t.Context(), p, playbooks.Incident{
		ID: "i1", Trigger: "alertmanager", Title: "bad \xff title", Severity: "P0", Target: "a \xff target", StartedAt: time.Now(),
	})
	if got, want := encode(t, again(t, p, r)), encode(t, r); !bytes.Equal(got, want) {
		t.Errorf("replay differs:\n%s", firstDifference(string(got), string(want)))
	}
	r.Playbook = "of old"
	if got := again(t, p, r); got.ID != "r1" || got.Trigger != r.Trigger || got.Target != r.Target || got.Playbook != p.Name {
		t.Errorf("got %+v", got)
	}
}

// TestReplayOddEvidence: whatever a probe may return survives being written.
func TestReplayOddEvidence(t *testing.T) {
	p := shipped(t)[0]
	odd := playbooks.Measurement{Step: "redis", TookMS: 7, Evidence: probes.Evidence{
		Source: "redis \xff", At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 5*3600+30*60)), Window: time.Second,
		Facts: []probes.Fact{
			{Name: "reachable", Value: 1},
			{Name: "reachable", Value: 0},
			{Name: "ping_seconds", Value: math.NaN()},
			{Name: "of_old", Value: 3, Unit: "furlongs"},
			{Name: "hit_ratio", Value: 0.5, Interval: &probes.Interval{Low: math.Inf(-1)}},
			{Name: "pool_size", Value: math.Copysign(0, -1)},
		},
		Rows:    []probes.Row{{Table: "t", Key: "\xc3", Value: math.Inf(1)}, {Table: "t", Key: "\xc3\x28<&>", Note: "\xff\xff"}},
		Missing: []probes.Missing{{Facts: []string{"hung", "\xff"}, Reason: "because \xff"}, {Reason: "nothing in particular"}},
		Cost:    probes.Cost{RedisCommands: 5, Bytes: 9},
	}}
	dead := odd
	dead.Step, dead.Err = "shards", "gone \xff"
	stranger := odd
	stranger.Step = "of-old"
	f := func(ms ...playbooks.Measurement) playbooks.Report {
		t.Helper()
		r := playbooks.Judge(p, ms)
		if err := schema(t)(encode(t, r)); err != nil {
			t.Errorf("report does not fit the schema: %v", err)
		}
		if got, want := encode(t, again(t, p, r)), encode(t, r); !bytes.Equal(got, want) {
			t.Errorf("replay differs:\n%s", firstDifference(string(got), string(want)))
		}
		return r
	}
	f()
	f(odd, odd)
	f(stranger, stranger)
	r := f(stranger, dead, odd)
	if r.Cost.RedisCommands != 15 {
		t.Errorf("cost: got %+v, want that of all three steps", r.Cost)
	}
	var got []string
	for _, g := range r.Gaps {
		got = append(got, g.Step+": "+g.Reason+": "+strings.Join(g.Facts, " "))
	}
	for _, want := range []string{
		"of-old: measured, but the playbook has no such step: ",
		"redis: measured, but the probe documents no such fact: redis.of_old",
		"shards: gone \uFFFD: ",
		"bloom: not measured: ",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("gaps: want %q among %q", want, got)
		}
	}
}

// TestReplayByAnotherPlaybook judges a recording of the shipped playbook by
// one that knows none of its steps, and back again without loss.
func TestReplayByAnotherPlaybook(t *testing.T) {
	p, other := shipped(t)[0], load(t, smallCatalog(), small)
	r := playbooks.Judge(p, measurements(t, cases(t, p.Name)["sick-hot-name"]))
	lost := again(t, other, r)
	if lost.Verdict != playbooks.Inconclusive || len(lost.Unjudged) != len(p.Steps) || lost.Cost != r.Cost {
		t.Errorf("got %s with %d unjudged measurements, want %d and no verdict", lost.Verdict, len(lost.Unjudged), len(p.Steps))
	}
	back := again(t, p, lost)
	back.Unjudged, back.Gaps = nil, slices.DeleteFunc(back.Gaps, func(g playbooks.Gap) bool { return g.Step == "a" || g.Step == "b" })
	if got, want := encode(t, back), encode(t, r); !bytes.Equal(got, want) {
		t.Errorf("there and back differs:\n%s", firstDifference(string(got), string(want)))
	}
}

func TestReadReport(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "it is empty",
		"[]":                               "not a report",
		"{}":                               "missing",
		`{"playbook":"p"}`:                 "missing",
		`{"playbook":"p","findings":[]} x`: "follows",
		`{"playbook":"p","findings":[{"status":"fine"}]}`: "unknown status",
		`{"playbook":"p","findings":[],"at":"later"}`:     "",
	} {
		_, err := playbooks.ReadReport([]byte(text))
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// FuzzReplay judges arbitrary recordings: what comes out must be a recording
// of itself.
func FuzzReplay(f *testing.F) {
	p := shipped(f)[0]
	for name, dir := range cases(f, p.Name) {
		if !strings.HasPrefix(name, "half-blind") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "report.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"playbook":"p","findings":[{"step":"bloom","error":"x"},{"step":"bloom"},{"step":""}],"unjudged":[{"step":"redis"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		recorded, err := playbooks.ReadReport(data)
		if err != nil {
			return
		}
		r := playbooks.Replay(p, recorded)
		want := encode(t, r)
		if got := encode(t, again(t, p, r)); !bytes.Equal(got, want) {
			t.Fatalf("replay differs:\n%s", firstDifference(string(got), string(want)))
		}
	})
}
