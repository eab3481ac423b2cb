package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/regpath/diagnose/playbooks"
)

// score is a confusion matrix in the making.
type score struct {
	runs, right int
	// wrong counts the runs that named a root which is not the injected one.
	wrong int
	// confidentWrong counts wrong roots of high confidence, healthyBlamed
	// causes found where nothing was wrong.
	confidentWrong, healthyBlamed int
	cells                         map[string]map[string]int // expected → found → runs
}

// add counts a report and returns what it found: the root's id or the verdict.
func (s *score) add(expected string, r playbooks.Report) string {
	found := string(r.Verdict)
	if r.Verdict == playbooks.CauseFound { // an inconclusive report may hold suspicions
		found = r.Causes[0].ID
	}
	s.runs++
	if found == expected {
		s.right++
	} else if r.Verdict == playbooks.CauseFound {
		s.wrong++
		if r.Causes[0].Confidence == playbooks.High {
			s.confidentWrong++
		}
	}
	if expected == string(playbooks.Healthy) && len(r.Causes) > 0 {
		s.healthyBlamed++
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

// macroF1 is the mean over the expected labels of F1 = 2TP / (2TP + FP + FN).
func (s *score) macroF1() float64 {
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

// print writes the matrix, a line for each expected label with what was found,
// and the summary as its last line.
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
	fmt.Fprintf(&b, "top1=%.3f macro_f1=%.3f confident_wrong=%d healthy_blamed=%d runs=%d\n",
		float64(s.right)/float64(s.runs), s.macroF1(), s.confidentWrong, s.healthyBlamed, s.runs)
	_, err := io.WriteString(w, b.String())
	return err
}
