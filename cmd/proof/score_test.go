package main

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

func reportOf(id string, c playbooks.Confidence) playbooks.Report {
	return playbooks.Report{Verdict: playbooks.CauseFound, Causes: []playbooks.Cause{{ID: id, Role: playbooks.Root, Confidence: c}}}
}

func of(roots ...string) label { return label{roots: roots} }

func TestScore(t *testing.T) {
	t.Parallel()
	var s score
	s.add(of("a"), reportOf("a", playbooks.High), false)
	s.add(of("a"), reportOf("b", playbooks.High), false)
	s.add(of("b"), reportOf("b", playbooks.Low), false)
	s.add(of(), playbooks.Report{Verdict: playbooks.Healthy}, false)
	s.add(of(), reportOf("a", playbooks.Medium), false)

	if s.runs != 5 || s.right != 3 || s.wrong != 2 || s.confidentWrong != 1 || s.healthyBlamed != 1 {
		t.Errorf("got runs %d right %d wrong %d confidentWrong %d healthyBlamed %d, want 5 3 2 1 1", s.runs, s.right, s.wrong, s.confidentWrong, s.healthyBlamed)
	}
	// a: TP 1 FP 1 FN 1 → 1/2; b: TP 1 FP 1 FN 0 → 2/3; healthy: TP 1 FP 0 FN 1 → 2/3.
	if got, want := s.macroF1(), (1.0/2+2.0/3+2.0/3)/3; math.Abs(got-want) > 1e-12 {
		t.Errorf("macro F1: got %v, want %v", got, want)
	}
	var b strings.Builder
	if err := s.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"high    1 of 2\n", "medium  0 of 1\n", "low     1 of 1\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s, want it to say %q", b.String(), want)
		}
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if got, want := lines[len(lines)-1], "top1=0.600 macro_f1=0.611 confident_wrong=1 healthy_blamed=1 halfblind_bad=0 runs=5"; got != want {
		t.Errorf("last line: got %q, want %q", got, want)
	}
}

// TestScorePairs: of two independent faults both must be named, and nothing else.
func TestScorePairs(t *testing.T) {
	t.Parallel()
	two := reportOf("a", playbooks.High)
	two.Causes = append(two.Causes, playbooks.Cause{ID: "b", Role: playbooks.Root, Confidence: playbooks.Low},
		playbooks.Cause{ID: "c", Role: playbooks.Consequence}, playbooks.Cause{ID: "d", Role: playbooks.Note})
	var s score
	if found := s.add(of("b", "a"), two, false); found != "a+b" || s.right != 1 || s.wrong != 0 {
		t.Errorf("both: got %q, right %d, wrong %d", found, s.right, s.wrong)
	}
	s.add(of("a", "b"), reportOf("a", playbooks.High), false)
	if s.right != 1 || s.wrong != 0 {
		t.Errorf("one of two: got right %d, wrong %d; want it neither", s.right, s.wrong)
	}
	s.add(of("a"), two, false)
	if s.right != 1 || s.wrong != 1 || s.confidentWrong != 0 {
		t.Errorf("one too many: got right %d, wrong %d, confidentWrong %d", s.right, s.wrong, s.confidentWrong)
	}
}

// TestScoreHalfBlind: a doubt that names what could not be seen is right; a
// doubt that does not, and a wrong cause, are bad.
func TestScoreHalfBlind(t *testing.T) {
	t.Parallel()
	l := label{roots: []string{"a"}, blind: "redis"}
	doubt := playbooks.Report{Verdict: playbooks.Inconclusive, Gaps: []playbooks.Gap{{Step: "redis"}}}
	var s score
	s.add(l, doubt, false)
	s.add(l, reportOf("a", playbooks.Medium), false)
	if s.right != 2 || s.halfBlindBad != 0 {
		t.Errorf("got right %d, bad %d; want 2 and 0", s.right, s.halfBlindBad)
	}
	doubt.Gaps[0].Step = "shards"
	s.add(l, doubt, false)
	s.add(l, reportOf("b", playbooks.Low), false)
	s.add(l, playbooks.Report{Verdict: playbooks.Healthy}, false)
	if s.right != 2 || s.halfBlindBad != 3 || s.wrong != 1 {
		t.Errorf("got right %d, bad %d, wrong %d; want 2, 3 and 1", s.right, s.halfBlindBad, s.wrong)
	}
}

// TestAilments: every case has a name of its own, and is what it is called.
func TestAilments(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range ailments() {
		if seen[a.String()] {
			t.Errorf("%s is there twice", a)
		}
		seen[a.String()] = true
		if len(a.label.roots) > 0 && a.prepare == nil && a.hurt == nil {
			t.Errorf("%s does nothing", a)
		}
	}
}

// TestStarved: on a machine that is too busy a service does not get the CPU,
// whatever else is the matter; elsewhere to say so is wrong.
func TestStarved(t *testing.T) {
	t.Parallel()
	const starved = "client-starved"
	beside := reportOf("a", playbooks.High)
	beside.Causes = append(beside.Causes, playbooks.Cause{ID: starved, Role: playbooks.Root, Confidence: playbooks.High})
	var s score
	if found := s.add(of("a"), beside, true); found != "a" || s.right != 1 || s.wrong != 0 || s.confidentWrong != 0 {
		t.Errorf("beside the cause: found %s, %+v", found, s)
	}
	if found := s.add(of(), reportOf(starved, playbooks.High), true); found != "inconclusive" || s.right != 1 || s.healthyBlamed != 0 {
		t.Errorf("alone: found %s, %+v", found, s)
	}
	if found := s.add(of(starved), reportOf(starved, playbooks.High), true); found != starved || s.right != 2 {
		t.Errorf("where it was injected: found %s, %+v", found, s)
	}
	if s.add(of("a"), beside, false); s.wrong != 1 || s.confidentWrong != 1 || s.starved != 3 {
		t.Errorf("with a CPU to spare: %+v", s)
	}
}

func TestTries(t *testing.T) {
	t.Parallel()
	schema, err := reportSchema()
	if err != nil {
		t.Fatal(err)
	}
	var running, most atomic.Int64
	one := func(light bool) trial {
		return trial{name: "x", light: light, run: func(context.Context) (outcome, error) {
			now := running.Add(1)
			defer running.Add(-1)
			most.Store(max(most.Load(), now))
			if !light && now != 1 {
				t.Error("a case that needs the machine does not have it for itself")
			}
			return outcome{starved: light}, errors.New("no")
		}}
	}
	a := accuracy{parallel: 2}
	var all []trial
	for i := range 30 {
		all = append(all, one(i%3 != 0))
	}
	seen := 0
	for r := range a.tries(t.Context(), all, schema) {
		seen++
		if r.err == nil || r.starved != r.trial.light {
			t.Errorf("got %+v", r)
		}
	}
	if seen != len(all) || most.Load() > 2 {
		t.Errorf("%d trials, %d at a time, want %d and 2 at most", seen, most.Load(), len(all))
	}
}

func TestCPU(t *testing.T) {
	t.Parallel()
	before := cpuOf(os.Getpid())
	if before.given <= 0 {
		t.Errorf("this process was given a CPU %d times", before.given)
	}
	after := func(waited time.Duration) cpu { return cpu{waited: before.waited + waited, given: before.given + 2} }
	if after(19*time.Millisecond).starved(before) || !after(20*time.Millisecond).starved(before) || before.starved(before) {
		t.Error("starved is who waits 10 ms each time")
	}
}
