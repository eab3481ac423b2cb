package playbooks

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/regpath/diagnose/probes"
)

// sights is everything one run saw, ready to be judged.
type sights struct {
	steps []sight // in playbook order
	// strangers are measurements of steps that are not in the playbook, by step.
	strangers  []Measurement
	known      map[string]observed // by full name of the fact
	lacks      map[string]lack     // of those that are not, where it is told
	activation cel.PartialActivation
	// firstRows holds the key of the first row of every table that has one, by
	// full name: "shards/failing".
	firstRows map[string]string
	truths    map[*Condition]truth // of the conditions looked at so far
}

// lack is in what way a fact is not known.
type lack int

const (
	unread lack = iota // it was to be had and was not read
	moot               // there was nothing to measure
	absent             // it is not to be had here
)

func lackOf(m probes.Missing) lack {
	switch {
	case m.Moot:
		return moot
	case m.Absent:
		return absent
	}
	return unread
}

// sight is what one step saw.
type sight struct {
	m Measurement
	// blind says why nothing was measured; empty if something was.
	blind string
	// odd holds the full names of facts that the probe does not document.
	odd []string
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
	facts := len(p.vocabulary.names)
	s := &sights{steps: make([]sight, len(p.Steps)), known: make(map[string]observed, facts), lacks: map[string]lack{}, firstRows: map[string]string{}, truths: map[*Condition]truth{}}
	byStep := map[string]Measurement{}
	for _, m := range ms {
		if _, twice := byStep[m.Step]; twice { // which to believe would depend on their order
			m = Measurement{Step: m.Step, Err: "measured more than once"}
		}
		byStep[m.Step] = m
	}
	variables := make(map[string]any, 3*facts)
	for i, step := range p.Steps {
		m, measured := byStep[step.ID]
		delete(byStep, step.ID)
		if !measured {
			m = Measurement{Step: step.ID, Err: "not measured"}
		}
		m = sane(m, step.Facts)
		s.steps[i] = sight{m: m, blind: m.Err}
		for _, r := range m.Evidence.Rows {
			if table := step.ID + "/" + r.Table; s.firstRows[table] == "" {
				s.firstRows[table] = short(r.Key)
			}
		}
		for _, n := range m.Evidence.Missing {
			for _, f := range n.Facts {
				name := step.ID + "." + f
				if before, twice := s.lacks[name]; twice && before != lackOf(n) {
					s.lacks[name] = unread
				} else {
					s.lacks[name] = lackOf(n)
				}
			}
		}
		for _, f := range m.Evidence.Facts {
			name := step.ID + "." + f.Name
			if _, documented := p.vocabulary.facts[name]; !documented {
				s.steps[i].odd = append(s.steps[i].odd, name)
				continue
			}
			s.known[name] = observed{Fact: f, source: m.Evidence.Source, at: m.Evidence.At}
			variables[name] = f.Value
		}
	}
	for _, step := range slices.Sorted(maps.Keys(byStep)) {
		s.strangers = append(s.strangers, sane(byStep[step], nil))
	}
	var unknown []*cel.AttributePatternType
	for _, name := range p.vocabulary.names {
		measured := s.measured(name)
		variables[measuredPrefix+name] = measured
		if !measured {
			unknown = append(unknown, cel.AttributePattern(name))
		}
		if measured || s.lacks[name] != unread {
			variables[knownPrefix+name] = measured
		} else {
			unknown = append(unknown, cel.AttributePattern(knownPrefix+name))
		}
	}
	var err error
	s.activation, err = cel.PartialVars(variables, unknown...)
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	return s, nil
}

// sane returns a copy of the measurement that can be written down and read back
// without loss: every number is finite, every fact stands once, every text is
// UTF-8 and every time has a year of four digits. What is dropped, or is no
// value that its documentation allows, is listed as missing. A measurement that
// failed has no facts, whatever came with it.
func sane(m Measurement, docs []probes.FactDoc) Measurement {
	m.Step, m.Err = valid(m.Step), valid(m.Err)
	e := &m.Evidence
	e.Source = valid(e.Source)
	if y := e.At.UTC().Year(); y < 1 || y > 9999 {
		e.At = time.Time{}
	}
	e.At = e.At.UTC()
	facts, rows, missing := e.Facts, e.Rows, e.Missing
	e.Facts, e.Rows, e.Missing = make([]probes.Fact, 0, len(facts)), nil, nil
	if m.Err != "" {
		return m
	}
	for _, r := range rows {
		if finite(r.Value) {
			e.Rows = append(e.Rows, probes.Row{
				Table: valid(r.Table), Key: valid(r.Key), Value: r.Value, Unit: probes.Unit(valid(string(r.Unit))), Note: valid(r.Note),
				Unknown: r.Unknown,
			})
		}
	}
	for _, n := range missing {
		n.Facts, n.Reason = slices.Clone(n.Facts), valid(n.Reason)
		for i, name := range n.Facts {
			n.Facts[i] = valid(name)
		}
		e.Missing = append(e.Missing, n)
	}
	seen := make(map[string]bool, len(facts))
	for _, f := range facts {
		f.Name, f.Unit = valid(f.Name), probes.Unit(valid(string(f.Unit)))
		fault := ""
		switch {
		case seen[f.Name]:
			fault = "reported more than once; the first counts"
		case !finite(f.Value):
			fault = fmt.Sprintf("not a finite number: %v", f.Value)
		case impossible(f, docs):
			fault = fmt.Sprintf("impossible: %v", f.Value)
		}
		seen[f.Name] = true
		if fault != "" {
			e.Missing = append(e.Missing, probes.Missing{Facts: []string{f.Name}, Reason: fault})
			continue
		}
		if f.Interval != nil && (!finite(f.Interval.Low) || !finite(f.Interval.High)) {
			f.Interval = nil
		}
		f.Onset = saneOnset(f.Onset)
		e.Facts = append(e.Facts, f)
	}
	return m
}

// saneOnset returns a copy of an onset that can be written down, nil for one that
// cannot.
func saneOnset(o *probes.Onset) *probes.Onset {
	if o == nil || !finite(o.Before) || !finite(o.After) {
		return nil
	}
	at := o.At.UTC()
	if at.IsZero() || at.Year() < 1 || at.Year() > 9999 {
		return nil
	}
	return &probes.Onset{At: at, Before: o.Before, After: o.After}
}

// maxKeyRunes bounds a key in a sentence. It comes from outside and may be a
// page long.
const maxKeyRunes = 60

// short returns a key as it stands in a sentence: in one line and not too long.
func short(key string) string {
	runes := []rune(strings.Join(strings.Fields(key), " "))
	if len(runes) > maxKeyRunes {
		return string(runes[:maxKeyRunes-1]) + "…"
	}
	return string(runes)
}

// mostEver is more than anything that is measured can be: 1e20 bytes are a
// hundred million terabytes.
const mostEver = 1e20

// impossible says that a fact has a value that it cannot have.
func impossible(f probes.Fact, docs []probes.FactDoc) bool {
	i := slices.IndexFunc(docs, func(d probes.FactDoc) bool { return d.Name == f.Name })
	switch {
	case i < 0:
		return false
	case math.Abs(f.Value) > mostEver, f.Value < 0 && !docs[i].Signed:
		return true
	}
	return docs[i].Unit == probes.Bool && f.Value != 0 && f.Value != 1
}

// valid returns a text as it comes out of JSON again.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// cost sums what the measurements did to their targets.
func (s *sights) cost() (c probes.Cost) {
	for _, v := range s.steps {
		c = c.Plus(v.m.Evidence.Cost)
	}
	for _, m := range s.strangers {
		c = c.Plus(m.Evidence.Cost)
	}
	return c
}

// measured says that a fact was measured.
func (s *sights) measured(fact string) bool {
	_, ok := s.known[fact]
	return ok
}

// unknownAmong returns the facts of the conditions that are not known, each
// once, in order.
func (s *sights) unknownAmong(conditions []*Condition) (names []string) {
	for _, c := range conditions {
		for _, f := range c.Facts {
			if !s.measured(f) {
				names = appendNew(names, f)
			}
		}
	}
	return names
}

// gaps returns what one step did not see, in a stable order: the step as a
// whole, what its probe says is missing, what it should have reported and is
// silent about, and what it reported and nobody knows.
func (s *sights) gaps(p *Playbook, i int) []Gap {
	step, v := p.Steps[i], s.steps[i]
	if v.blind != "" {
		return []Gap{{Step: step.ID, Reason: v.blind}}
	}
	var gaps []Gap
	accounted := map[string]bool{}
	for _, m := range v.m.Evidence.Missing {
		if m.Moot { // nothing is there to be looked at
			for _, f := range m.Facts {
				accounted[f] = true
			}
			continue
		}
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
	if len(v.odd) > 0 {
		gaps = append(gaps, Gap{Step: step.ID, Reason: "measured, but the probe documents no such fact", Facts: v.odd})
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
