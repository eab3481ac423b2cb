package playbooks

import (
	"fmt"
	"math"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/regpath/diagnose/probes"
)

// sights is everything one run saw, ready to be judged.
type sights struct {
	steps []sight // in playbook order
	// strangers are steps that were measured and are not in the playbook.
	strangers  []string
	known      map[string]observed // by full name of the fact
	activation cel.PartialActivation
}

// sight is what one step saw.
type sight struct {
	m Measurement
	// blind says why nothing was measured; empty if something was.
	blind string
}

// observed is a fact with where it comes from.
type observed struct {
	probes.Fact
	source string
	at     time.Time
}

// observe puts the measurements in playbook order, whatever order they come
// in, and sorts what is a number from what is not.
func observe(p *Playbook, ms []Measurement) (*sights, error) {
	s := &sights{steps: make([]sight, len(p.Steps)), known: map[string]observed{}}
	count := make([]int, len(p.Steps))
	for _, m := range ms {
		i, ok := p.index[m.Step]
		if !ok {
			s.strangers = append(s.strangers, m.Step)
			continue
		}
		s.steps[i].m = m
		count[i]++
	}
	slices.Sort(s.strangers)
	s.strangers = slices.Compact(s.strangers)
	variables := map[string]any{}
	for i, step := range p.Steps {
		v := &s.steps[i]
		switch {
		case count[i] == 0:
			v.blind = "not measured"
		case count[i] > 1: // which of them to believe would depend on their order
			v.m = Measurement{Err: "measured more than once"}
			v.blind = v.m.Err
		case v.m.Err != "":
			v.blind = v.m.Err
			v.m.Evidence.Facts, v.m.Evidence.Rows, v.m.Evidence.Missing = nil, nil, nil
		}
		v.m.Step = step.ID
		v.m.Evidence = sane(v.m.Evidence)
		for _, f := range v.m.Evidence.Facts {
			name := step.ID + "." + f.Name
			if _, documented := p.vocabulary.facts[name]; !documented {
				continue
			}
			s.known[name] = observed{Fact: f, source: v.m.Evidence.Source, at: v.m.Evidence.At}
			variables[name] = f.Value
		}
	}
	var unknown []*cel.AttributePatternType
	for _, name := range p.vocabulary.names {
		_, measured := variables[name]
		variables[knownPrefix+name] = measured
		if !measured {
			unknown = append(unknown, cel.AttributePattern(name))
		}
	}
	var err error
	s.activation, err = cel.PartialVars(variables, unknown...)
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	return s, nil
}

// sane returns a copy of the evidence in which every number is finite, every
// fact stands once and every time can be written. What is dropped is listed as
// missing.
func sane(e probes.Evidence) probes.Evidence {
	facts := make([]probes.Fact, 0, len(e.Facts))
	e.Missing = slices.Clone(e.Missing)
	seen := map[string]bool{}
	for _, f := range e.Facts {
		switch {
		case seen[f.Name]:
			e.Missing = append(e.Missing, probes.Missing{Facts: []string{f.Name}, Reason: "reported more than once; the first counts"})
			continue
		case !finite(f.Value):
			e.Missing = append(e.Missing, probes.Missing{Facts: []string{f.Name}, Reason: fmt.Sprintf("not a finite number: %v", f.Value)})
			seen[f.Name] = true
			continue
		}
		seen[f.Name] = true
		if f.Interval != nil && (!finite(f.Interval.Low) || !finite(f.Interval.High)) {
			f.Interval = nil
		}
		facts = append(facts, f)
	}
	e.Facts = facts
	e.Rows = slices.DeleteFunc(slices.Clone(e.Rows), func(r probes.Row) bool { return !finite(r.Value) })
	if y := e.At.Year(); y < 1 || y > 9999 {
		e.At = time.Time{}
	}
	return e
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// cost sums what the measurements did to their targets.
func (s *sights) cost() (c probes.Cost) {
	for _, v := range s.steps {
		c = c.Plus(v.m.Evidence.Cost)
	}
	return c
}

// unknownAmong returns the facts of the conditions that are not known, each
// once, in order.
func (s *sights) unknownAmong(conditions []*Condition) (names []string) {
	for _, c := range conditions {
		for _, f := range c.Facts {
			if _, ok := s.known[f]; !ok {
				names = appendNew(names, f)
			}
		}
	}
	return names
}

// gaps returns what one step did not see, in a stable order: the step as a
// whole, what its probe says is missing, and what it should have reported and
// is silent about.
func (s *sights) gaps(p *Playbook, i int) []Gap {
	step, v := p.Steps[i], s.steps[i]
	if v.blind != "" {
		return []Gap{{Step: step.ID, Reason: v.blind}}
	}
	var gaps []Gap
	accounted := map[string]bool{}
	for _, m := range v.m.Evidence.Missing {
		at := slices.IndexFunc(gaps, func(g Gap) bool { return g.Reason == m.Reason })
		if at < 0 {
			at = len(gaps)
			gaps = append(gaps, Gap{Step: step.ID, Reason: m.Reason})
		}
		for _, f := range m.Facts {
			accounted[f] = true
			gaps[at].Facts = appendNew(gaps[at].Facts, step.ID+"."+f)
		}
	}
	var silent []string
	for _, f := range step.Facts {
		name := step.ID + "." + f.Name
		if _, known := s.known[name]; !known && !accounted[f.Name] {
			silent = append(silent, name)
		}
	}
	if len(silent) > 0 {
		gaps = append(gaps, Gap{Step: step.ID, Reason: "not reported by the probe", Facts: silent})
	}
	return gaps
}

// appendNew appends a word that is not there yet.
func appendNew(words []string, word string) []string {
	if slices.Contains(words, word) {
		return words
	}
	return append(words, word)
}
