package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// label is what a run must come to.
type label struct {
	// roots are the injected causes; none when the service is well.
	roots []string
	// blind names the step that the agent was kept from measuring: then a report
	// without a cause is right as well, if it names that gap. Empty when it sees all.
	blind string
}

func (l label) String() string { return named(l.roots, playbooks.Healthy) }

// named joins causes, or is the verdict where there are none.
func named(roots []string, verdict playbooks.Verdict) string {
	if len(roots) == 0 {
		return string(verdict)
	}
	return strings.Join(slices.Sorted(slices.Values(roots)), "+")
}

// starvedCause is what is so on a machine that is too busy, whatever was injected.
const starvedCause = "client-starved"

// score is a confusion matrix in the making.
type score struct {
	runs, right int
	// starved counts the runs in which the kernel kept the checker waiting for the
	// CPU: there client-starved is no wrong verdict, and counts for nothing.
	starved int
	// wrong counts the runs that named a root which was not injected.
	wrong int
	// confidentWrong counts wrong roots of high confidence, healthyBlamed runs with
	// a cause where nothing was wrong, halfBlindBad half-blind runs that are neither
	// right nor inconclusive with the gap named.
	confidentWrong, healthyBlamed, halfBlindBad int
	cells                                       map[string]map[string]int // expected → found → runs
	levels                                      map[playbooks.Confidence]*tally
	took                                        []time.Duration
}

// tally counts roots of one confidence.
type tally struct{ named, right int }

// add counts a report and returns what it found: its roots or the verdict.
func (s *score) add(l label, r playbooks.Report, starved bool) string {
	var roots []string
	wrong := false
	verdict := r.Verdict
	if starved {
		s.starved++
	}
	for _, c := range r.Causes {
		if r.Verdict != playbooks.CauseFound || c.Role != playbooks.Root { // an inconclusive report may hold suspicions
			continue
		}
		if starved && c.ID == starvedCause && !slices.Contains(l.roots, c.ID) {
			verdict = playbooks.Inconclusive // unless another cause is found beside it
			continue
		}
		roots = append(roots, c.ID)
		injected := slices.Contains(l.roots, c.ID)
		s.level(c.Confidence, injected)
		if !injected {
			wrong = true
			if c.Confidence == playbooks.High {
				s.confidentWrong++
			}
		}
	}
	found, expected := named(roots, verdict), l.String()
	s.runs++
	s.took = append(s.took, time.Duration(r.DurationMS)*time.Millisecond)
	if wrong {
		s.wrong++
	}
	if len(l.roots) == 0 && len(roots) > 0 {
		s.healthyBlamed++
	}
	if l.blind != "" {
		if found == expected || r.Verdict == playbooks.Inconclusive && slices.ContainsFunc(r.Gaps, func(g playbooks.Gap) bool { return g.Step == l.blind }) {
			s.right++
		} else {
			s.halfBlindBad++
		}
		return found
	}
	if found == expected {
		s.right++
	}
	if s.cells == nil {
		s.cells = map[string]map[string]int{}
	}
	if s.cells[expected] == nil {
		s.cells[expected] = map[string]int{}
	}
	s.cells[expected][found]++
	return found
}

func (s *score) level(c playbooks.Confidence, right bool) {
	if s.levels == nil {
		s.levels = map[playbooks.Confidence]*tally{}
	}
	if s.levels[c] == nil {
		s.levels[c] = &tally{}
	}
	s.levels[c].named++
	if right {
		s.levels[c].right++
	}
}

// macroF1 is the mean over the expected labels of F1 = 2TP / (2TP + FP + FN);
// 1 when nothing was asked but half-blind.
func (s *score) macroF1() float64 {
	if len(s.cells) == 0 {
		return 1
	}
	sum := 0.0
	for label, row := range s.cells {
		tp := row[label]
		fn, fp := -tp, -tp
		for _, n := range row {
			fn += n
		}
		for _, other := range s.cells {
			fp += other[label]
		}
		sum += 2 * float64(tp) / float64(2*tp+fp+fn)
	}
	return sum / float64(len(s.cells))
}

// median is the middle of the times to a verdict.
func (s *score) median() time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s.took))[len(s.took)/2]
}

// print writes the matrix, a line for each expected label with what was found,
// how often a root of each confidence was the injected one, and the summary as
// its last line.
func (s *score) print(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\nexpected → found (runs)\n")
	for _, expected := range slices.Sorted(maps.Keys(s.cells)) {
		row := s.cells[expected]
		var parts []string
		for _, found := range slices.Sorted(maps.Keys(row)) {
			parts = append(parts, fmt.Sprintf("%s (%d)", found, row[found]))
		}
		fmt.Fprintf(&b, "%-24s → %s\n", expected, strings.Join(parts, ", "))
	}
	b.WriteString("\nconfidence: right of named\n")
	for _, c := range []playbooks.Confidence{playbooks.High, playbooks.Medium, playbooks.Low} {
		if t := s.levels[c]; t != nil {
			fmt.Fprintf(&b, "%-7s %d of %d\n", c, t.right, t.named)
		}
	}
	fmt.Fprintf(&b, "\nmedian seconds to the verdict: %.1f\n", s.median().Seconds())
	if s.starved > 0 {
		fmt.Fprintf(&b, "%d of %d runs had a checker that the kernel kept waiting for the CPU\n", s.starved, s.runs)
	}
	fmt.Fprintf(&b, "top1=%.3f macro_f1=%.3f confident_wrong=%d healthy_blamed=%d halfblind_bad=%d runs=%d\n",
		float64(s.right)/float64(s.runs), s.macroF1(), s.confidentWrong, s.healthyBlamed, s.halfBlindBad, s.runs)
	_, err := io.WriteString(w, b.String())
	return err
}
