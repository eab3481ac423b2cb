package playbooks

import (
	"fmt"
	"slices"
	"time"

	"github.com/regpath/diagnose/probes"
)

// Judge works out what is wrong from what was measured. It is pure: no clock,
// no I/O, no chance; the same measurements, in whatever order, give the same
// report to the byte. It fills everything but ID, Target, Trigger, StartedAt
// and DurationMS. See the package documentation for the rules.
func Judge(p *Playbook, ms []Measurement) Report {
	r := Report{Playbook: p.Name, Causes: []Cause{}, RuledOut: []RuledOut{}, Gaps: []Gap{}, Findings: []Finding{}}
	s, err := observe(p, ms)
	if err != nil { // no measurement can bring this about; say so rather than guess
		r.Verdict, r.Summary = Inconclusive, "The measurements could not be judged: "+err.Error()+"."
		return r
	}
	r.Cost = s.cost()
	for i := range p.Steps {
		r.Findings = append(r.Findings, finding(p.Steps[i], s.steps[i], s))
		r.Gaps = append(r.Gaps, s.gaps(p, i)...)
	}
	r.Unjudged = s.strangers
	for _, m := range s.strangers {
		r.Gaps = append(r.Gaps, Gap{Step: m.Step, Reason: "measured, but the playbook has no such step"})
	}
	c := weighAll(p, s)
	r.Causes = c.matched()
	r.RuledOut = c.ruledOut()
	missed := missedBy(p, s, c)
	for i, g := range r.Gaps {
		r.Gaps[i].NoEffect = len(g.Facts) > 0 && !slices.ContainsFunc(g.Facts, func(f string) bool { return slices.Contains(missed, f) })
	}
	r.Gaps = append(r.Gaps, c.gaps(p, s)...)
	r.Verdict = verdict(r.Findings, c)
	if absent, unknown := lifeless(p, s); r.Verdict == Healthy && len(absent)+len(unknown) > 0 {
		r.Verdict = Inconclusive
	}
	r.Summary = summarize(p, s, r, c)
	return r
}

func verdict(findings []Finding, c *court) Verdict {
	switch {
	case len(c.roots()) > 0:
		return CauseFound
	case len(c.in(matched)) > 0 || len(c.in(undecided)) > 0:
		return Inconclusive
	case slices.ContainsFunc(findings, amiss):
		return Inconclusive
	}
	return Healthy
}

// amiss says that a layer is not well, for all that was seen; one that was not to
// be looked at is neither.
func amiss(f Finding) bool { return f.Status != OK && !f.NotLookedAt }

// missedBy returns the unknown facts for want of which a condition is open, or a
// cause not judged.
func missedBy(p *Playbook, s *sights, court *court) (facts []string) {
	for _, t := range court.in(unjudged) {
		for _, f := range s.unknownAmong(t.absent) {
			facts = appendNew(facts, f)
		}
	}
	look := func(c *Condition) {
		if c == nil || c.holds(s) != open {
			return
		}
		for _, f := range s.unknownAmong([]*Condition{c}) {
			facts = appendNew(facts, f)
		}
	}
	for _, step := range p.Steps {
		for _, r := range step.Rules {
			look(r.When)
		}
	}
	for _, h := range p.Causes {
		for _, c := range slices.Concat(h.When, h.Against) {
			look(c.Condition)
		}
		for _, i := range h.Signals {
			look(i.When)
		}
		for _, l := range h.Limits {
			look(l.Unless)
		}
	}
	for _, c := range p.Healthy {
		look(c.Condition)
	}
	return facts
}

// finding judges one step.
func finding(step *Step, v sight, s *sights) Finding {
	e := v.m.Evidence
	f := Finding{
		Step: step.ID, Title: step.Title,
		Source: e.Source, At: e.At, Window: e.Window, Facts: e.Facts, Rows: e.Rows, Missing: e.Missing,
		Error: v.blind, Cost: e.Cost, TookMS: v.m.TookMS,
	}
	if v.blind != "" {
		f.Summary = "Could not be measured: " + v.blind + "."
		return f
	}
	rule, opened := decide(step, s)
	switch {
	case rule != nil && rule.certain(opened):
		f.Status, f.NotLookedAt, f.Summary = rule.Status, rule.Status == Unknown, rule.Summary.fill(s)
		if rule.When != nil {
			f.Condition = rule.When.fill(s)
		}
		f.Because = rule.Because.fillOr(f.Condition, s)
	case len(opened) > 0:
		f.Summary = unknownList(s.unknownAmong(conditionsOf(opened)))
		f.Condition = opened[0].When.fill(s)
		f.Because = f.Condition
	default:
		f.Summary = "No rule of this step applies."
	}
	return f
}

// decide returns the first rule that holds, nil if there is none, and the
// rules before it that are open.
func decide(step *Step, s *sights) (first *Rule, opened []*Rule) {
	for i := range step.Rules {
		rule := &step.Rules[i]
		if rule.When == nil {
			return rule, opened
		}
		switch rule.When.holds(s) {
		case yes:
			return rule, opened
		case open:
			opened = append(opened, rule)
		case no:
		}
	}
	return nil, opened
}

// certain says whether the status of a rule stands although those before it are open.
func (r *Rule) certain(opened []*Rule) bool {
	return !slices.ContainsFunc(opened, func(o *Rule) bool {
		return o.Status < r.Status || (r.Status <= OK && o.Status != r.Status)
	})
}

func conditionsOf(rules []*Rule) (cs []*Condition) {
	for _, r := range rules {
		cs = append(cs, r.When)
	}
	return cs
}

// evidence lists the facts that speak for a matched cause.
func evidence(t *trial, s *sights, p *Playbook) []Observation {
	observations := []Observation{}
	add := func(c *Condition, expected string) {
		for _, name := range c.telling(s) {
			o, known := s.known[name]
			if !known || slices.ContainsFunc(observations, func(o Observation) bool { return o.Fact == name }) {
				continue
			}
			doc := p.vocabulary.facts[name]
			healthy := doc.Expected
			if name == c.Facts[0] && expected != "" {
				healthy = expected
			}
			observations = append(observations, Observation{
				Fact: name, Value: o.Value, Unit: unitOf(o, doc), Interval: o.Interval,
				Expected: healthy, Source: o.source, At: o.at, Onset: o.Onset,
			})
		}
	}
	for _, c := range t.h.When {
		add(c.Condition, "")
	}
	for _, i := range t.h.Signals {
		if i.When.holds(s) == yes {
			add(i.When, i.Expected)
		}
	}
	return observations
}

// onset is when the first of the observations moved; zero if none is known to have.
func onset(observations []Observation) (first time.Time) {
	for _, o := range observations {
		if o.Onset != nil && (first.IsZero() || o.Onset.At.Before(first)) {
			first = o.Onset.At
		}
	}
	return first
}

// unitOf prefers the unit that was measured to the one that is documented.
func unitOf(o observed, doc probes.FactDoc) probes.Unit {
	if o.Unit != probes.Count {
		return o.Unit
	}
	return doc.Unit
}

// unknownList says that facts are unknown, naming the first few.
func unknownList(names []string) string {
	switch n := len(names); n {
	case 1:
		return names[0] + " is unknown."
	case 2, 3, 4:
		return joinWords(names) + " are unknown."
	default:
		return fmt.Sprintf("%s and %d more are unknown.", joinCommas(names[:min(3, n)]), n-min(3, n))
	}
}
