package playbooks

import (
	"fmt"
	"slices"
	"strings"
)

// Expectation is what the evidence of a test must come to. What is left at its
// zero value is not looked at.
type Expectation struct {
	Verdict Verdict
	// Causes are the ids of all matched causes in the report's order; an empty
	// list that is not nil expects none. Roots are those that are roots.
	Causes, Roots []string
	Confidence    []Confident
	// RuledOut holds ids that must be among the causes ruled out.
	RuledOut []string
	// Gaps holds texts each of which must be part of a gap, written as
	// "redis: timeout (redis.hung, redis.ping_seconds)".
	Gaps   []string
	Status []Stated
}

// Confident expects a level of confidence of a matched cause.
type Confident struct {
	ID    string
	Level Confidence
}

// Stated expects a status of a step.
type Stated struct {
	Step   string
	Status Status
}

func (e Expectation) empty() bool {
	return e.Verdict == "" && e.Causes == nil && e.Roots == nil && len(e.Confidence) == 0 &&
		len(e.RuledOut) == 0 && len(e.Gaps) == 0 && len(e.Status) == 0
}

// Check returns how the report differs from what is expected: lines for a
// human, each difference with what explains it, indented, below it.
func (e Expectation) Check(r Report) []string {
	var d differences
	if e.Verdict != "" && r.Verdict != e.Verdict {
		d.add("verdict: got %s, want %s", r.Verdict, e.Verdict)
		d.note("%s", r.Summary)
	}
	var all, roots []string
	for _, c := range r.Causes {
		all = append(all, c.ID)
		if c.Role == Root {
			roots = append(roots, c.ID)
		}
	}
	d.lists(r, "causes", all, e.Causes)
	d.lists(r, "roots", roots, e.Roots)
	for _, want := range e.Confidence {
		d.confidence(r, want)
	}
	for _, id := range e.RuledOut {
		if !slices.ContainsFunc(r.RuledOut, func(o RuledOut) bool { return o.ID == id }) {
			d.add("ruled out: want %s", id)
			d.fate(r, id)
		}
	}
	for _, want := range e.Gaps {
		d.gap(r, want)
	}
	for _, want := range e.Status {
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Step == want.Step })
		switch {
		case i < 0:
			d.add("status of %s: want %s, but there is no such step", want.Step, want.Status)
		case r.Findings[i].Status != want.Status:
			d.add("status of %s: got %s, want %s", want.Step, r.Findings[i].Status, want.Status)
			d.note("%s", r.Findings[i].Summary)
		}
	}
	return d
}

// differences are lines for a human.
type differences []string

func (d *differences) add(format string, args ...any) {
	*d = append(*d, fmt.Sprintf(format, args...))
}

// note explains the line before.
func (d *differences) note(format string, args ...any) { d.add("    "+format, args...) }

// lists compares the ids of causes in order; nil wants nothing in particular.
func (d *differences) lists(r Report, what string, got, want []string) {
	if want == nil || slices.Equal(got, want) {
		return
	}
	d.add("%s: got %s, want %s", what, orNone(got), orNone(want))
	for _, id := range want {
		if !slices.Contains(got, id) {
			d.fate(r, id)
		}
	}
	for _, id := range got {
		if !slices.Contains(want, id) {
			d.fate(r, id)
		}
	}
}

func orNone(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, ", ")
}

// fate says what became of a cause, and why.
func (d *differences) fate(r Report, id string) {
	for _, c := range r.Causes {
		if c.ID != id {
			continue
		}
		d.note("%s is a %s at confidence %s, by:", id, c.Role, c.Confidence)
		for _, o := range c.Evidence[:min(len(c.Evidence), 6)] {
			d.note("  %s = %s", o.Fact, formatRaw(o.Value))
		}
		return
	}
	for _, o := range r.RuledOut {
		if o.ID == id {
			d.note("%s is ruled out: %s", id, o.Condition)
			return
		}
	}
	d.note("%s is neither shown nor ruled out", id)
	for _, g := range r.Gaps {
		if strings.Contains(g.Reason, id) {
			d.note("  for want of %s", joinWords(g.Facts))
		}
	}
}

// confidence compares the confidence of one cause.
func (d *differences) confidence(r Report, want Confident) {
	i := slices.IndexFunc(r.Causes, func(c Cause) bool { return c.ID == want.ID })
	if i < 0 {
		d.add("confidence of %s: want %s, but it is no cause", want.ID, want.Level)
		d.fate(r, want.ID)
		return
	}
	c := r.Causes[i]
	if c.Confidence == want.Level {
		return
	}
	d.add("confidence of %s: got %s, want %s", c.ID, c.Confidence, want.Level)
	for _, s := range c.Disagree {
		d.note("speaks against it (weight %s): %s", formatRaw(s.Weight), s.Condition)
	}
	for _, s := range c.Unknown {
		d.note("unknown (weight %s): %s", formatRaw(s.Weight), s.Condition)
	}
}

// gap looks for a text among the gaps.
func (d *differences) gap(r Report, want string) {
	var lines []string
	for _, g := range r.Gaps {
		line := g.Step + ": " + g.Reason
		if len(g.Facts) > 0 {
			line += " (" + joinCommas(g.Facts) + ")"
		}
		if strings.Contains(line, want) {
			return
		}
		lines = append(lines, line)
	}
	d.add("gaps: want one with %q, got %d", want, len(lines))
	for _, line := range lines {
		d.note("%s", line)
	}
}
