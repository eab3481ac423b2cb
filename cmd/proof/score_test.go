package main

import (
	"math"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
)

func reportOf(id string, c playbooks.Confidence) playbooks.Report {
	return playbooks.Report{Verdict: playbooks.CauseFound, Causes: []playbooks.Cause{{ID: id, Confidence: c}}}
}

func TestScore(t *testing.T) {
	t.Parallel()
	var s score
	s.add("a", reportOf("a", playbooks.High))
	s.add("a", reportOf("b", playbooks.High))
	s.add("b", reportOf("b", playbooks.Low))
	s.add("healthy", playbooks.Report{Verdict: playbooks.Healthy})
	s.add("healthy", reportOf("a", playbooks.Medium))

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
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if got, want := lines[len(lines)-1], "top1=0.600 macro_f1=0.611 confident_wrong=1 healthy_blamed=1 runs=5"; got != want {
		t.Errorf("last line: got %q, want %q", got, want)
	}
}
