package playbooks

import (
	"cmp"
	"slices"
	"time"
)

// state is how a trial ended.
type state int

const (
	undecided state = iota
	refuted
	matched
	// unjudged is a hypothesis that rests on facts which are not to be had here.
	unjudged
)

// trial is one hypothesis held against what was seen.
type trial struct {
	h     *Hypothesis
	order int // place in the file
	state state
	// refutation says what ruled the hypothesis out, refuting is its condition.
	refutation, refuting string
	// open holds the conditions that left it undecided, absent those that want what
	// is not to be had.
	open, absent             []*Condition
	agree, disagree, unknown []Signal
	confidence               Confidence
	// caveats say why the confidence is held down; note is set when that is to low
	// and another cause is found that is none: it is no root then.
	caveats []string
	held    Confidence
	note    bool
	// own is the confidence by the cause's own signs, whatever else is found; atBest
	// what it would be if all that was not measured spoke for it.
	own, atBest Confidence
	// parents are matched hypotheses that explain this one, doubters undecided
	// ones that would.
	parents, doubters []*trial
	depth             int // steps from a root
	// evidence is what speaks for a matched cause, since when the first of it moved.
	evidence []Observation
	since    time.Time
}

// court holds the trials of all hypotheses of a playbook, in its order.
type court struct {
	trials []*trial
	byID   map[string]*trial
	s      *sights
}

func weighAll(p *Playbook, s *sights) *court {
	c := &court{byID: map[string]*trial{}, s: s}
	for i, h := range p.Causes {
		t := weigh(h, s)
		t.order = i
		if t.state == matched {
			t.evidence = evidence(t, s, p)
			t.since = onset(t.evidence)
		}
		c.trials = append(c.trials, t)
		c.byID[h.ID] = t
	}
	for _, t := range c.trials {
		for _, e := range t.h.Explains {
			if e.refuted(s) {
				continue
			}
			child := c.byID[e.ID]
			switch t.state {
			case matched:
				if !t.paler(child) {
					child.parents = append(child.parents, t)
				}
			case undecided:
				child.doubters = append(child.doubters, t)
			case refuted, unjudged:
			}
		}
	}
	for _, t := range c.trials {
		t.depth = depth(t)
		t.confidence = t.own
		if t.inDoubt() {
			t.confidence = Low
		}
	}
	if slices.ContainsFunc(c.roots(), func(t *trial) bool { return t.held != Low }) {
		for _, t := range c.trials {
			t.note = t.held == Low && len(t.parents) == 0
		}
	}
	return c
}

// weigh holds one hypothesis against what was seen. Only what was measured refutes
// it, speaks for it or against it. A sign that is absent rules
// it out before what speaks against it does: that tells look-alikes apart, which
// show the same signs.
func weigh(h *Hypothesis, s *sights) *trial {
	t := &trial{h: h, state: matched}
	for _, c := range h.When {
		switch c.holds(s) {
		case yes:
		case no:
			if c.byAbsence(s) {
				t.absent = append(t.absent, c.Condition)
				continue
			}
			t.refute(c, "not so: "+c.fill(s), s)
		case open:
			t.open = append(t.open, c.Condition)
		}
		if t.state == refuted {
			return t
		}
	}
	for _, c := range h.Against {
		signal := Signal{Condition: c.fill(s), Weight: 1}
		switch outcome := c.holds(s); {
		case outcome != open && c.byAbsence(s):
			t.unknown = append(t.unknown, signal)
		case outcome == yes:
			t.refute(c, signal.Condition, s)
			return t
		case outcome == no:
			signal.Condition = "not (" + signal.Condition + ")"
			t.agree = append(t.agree, signal)
		default:
			t.unknown = append(t.unknown, signal)
		}
	}
	switch {
	case len(t.absent) > 0:
		t.state = unjudged
	case len(t.open) > 0:
		t.state = undecided
	}
	heldAtBest := High
	for _, l := range h.Limits {
		outcome := l.Unless.holds(s)
		if outcome == yes {
			continue
		}
		t.caveats = append(t.caveats, l.Because.fill(s))
		if t.held == "" || rank(l.AtMost) < rank(t.held) {
			t.held = l.AtMost
		}
		if outcome == no && !l.Unless.byAbsence(s) {
			heldAtBest = lesser(heldAtBest, l.AtMost)
		}
	}
	for _, i := range h.Signals {
		signal := Signal{Condition: i.When.fill(s), Weight: i.Weight}
		switch outcome := i.When.holds(s); {
		case outcome == open || i.When.byAbsence(s):
			t.unknown = append(t.unknown, signal)
		case outcome == yes:
			t.agree = append(t.agree, signal)
		default:
			t.disagree = append(t.disagree, signal)
		}
	}
	b := weights(t)
	t.own = confidence(b)
	if t.held != "" {
		t.own = lesser(t.own, t.held)
	}
	t.atBest = lesser(confidence(balance{agree: b.agree + b.unknown, disagree: b.disagree}), heldAtBest)
	return t
}

// refute rules the hypothesis out, which ends its trial.
func (t *trial) refute(c Clause, condition string, s *sights) {
	t.state, t.refuting, t.refutation = refuted, condition, condition
	t.refutation = c.Words.fillOr(condition, s)
}

// refuted says that a cause is known not to have the effect this time.
func (e Effect) refuted(s *sights) bool {
	return e.When != nil && e.When.holds(s) == no && !e.When.byAbsence(s)
}

// inDoubt says that a matched cause may follow from one that is undecided.
func (t *trial) inDoubt() bool { return len(t.parents) == 0 && len(t.doubters) > 0 }

// paler says that a cause is unlikely, by what was measured and not for want of it,
// and the other one is surer: it then stands beside what it would explain.
func (t *trial) paler(other *trial) bool { return t.atBest == Low && other.own != Low }

// depth is the length of the longest chain of explanations that leads here;
// the loader has made sure that there are no circles.
func depth(t *trial) (n int) {
	for _, parent := range t.parents {
		n = max(n, depth(parent)+1)
	}
	return n
}

// in returns the trials that ended in a state.
func (c *court) in(s state) (ts []*trial) {
	for _, t := range c.trials {
		if t.state == s {
			ts = append(ts, t)
		}
	}
	return ts
}

// roots returns the matched causes that nothing explains or might explain and
// that are no mere notes, the likeliest first.
func (c *court) roots() (ts []*trial) {
	for _, t := range c.ranked() {
		if len(t.parents) == 0 && !t.inDoubt() && !t.note {
			ts = append(ts, t)
		}
	}
	return ts
}

// ranked returns the matched causes: roots first, then notes, those in
// doubt, and the consequences by distance from their root; within these by confidence,
// onset (what began first is the likelier cause, and what is not known to have begun
// comes last), agreeing weight and place in the file.
func (c *court) ranked() []*trial {
	ts := c.in(matched)
	slices.SortStableFunc(ts, func(a, b *trial) int {
		return cmp.Or(
			cmp.Compare(a.depth, b.depth),
			cmp.Compare(number(a.inDoubt()), number(b.inDoubt())),
			cmp.Compare(number(a.note), number(b.note)),
			cmp.Compare(rank(b.confidence), rank(a.confidence)),
			cmp.Compare(number(a.since.IsZero()), number(b.since.IsZero())),
			a.since.Compare(b.since),
			cmp.Compare(weights(b).agree, weights(a).agree),
			cmp.Compare(a.order, b.order),
		)
	})
	return ts
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// matched returns the report's causes, in rank order.
func (c *court) matched() []Cause {
	s, causes := c.s, []Cause{}
	for _, t := range c.ranked() {
		cause := Cause{
			ID: t.h.ID, Title: t.h.Title, Summary: t.h.Summary.fill(s), Role: Root, Confidence: t.confidence, Caveats: t.caveats,
			Since: t.since, Evidence: t.evidence, Explains: []string{}, Actions: []string{}, Lasting: slices.Clone(t.h.Lasting),
			Agree: t.agree, Disagree: t.disagree, Unknown: t.unknown,
		}
		if headline, complete := t.h.Headline.fillWhole(s); complete {
			cause.Title = headline
		}
		for _, a := range t.h.Actions {
			if text := a.fill(s); text != "" {
				cause.Actions = append(cause.Actions, text)
			}
		}
		switch {
		case t.depth > 0:
			cause.Role = Consequence
		case t.note:
			cause.Role = Note
		}
		for _, e := range t.h.Explains {
			if child := c.byID[e.ID]; child.state == matched && slices.Contains(child.parents, t) {
				cause.Explains = append(cause.Explains, e.ID)
			}
		}
		causes = append(causes, cause)
	}
	return causes
}

func (c *court) ruledOut() []RuledOut {
	out := []RuledOut{}
	for _, t := range c.in(refuted) {
		out = append(out, RuledOut{ID: t.h.ID, Title: t.h.Title, Because: t.refutation, Condition: t.refuting})
	}
	return out
}

// gaps names the causes that could not be decided and those that could not be
// judged, grouped by the step whose silence is to blame.
func (c *court) gaps(p *Playbook, s *sights) (gaps []Gap) {
	for _, step := range p.Steps {
		for _, fate := range []struct {
			state state
			words string
		}{{undecided, "neither shown nor ruled out: "}, {unjudged, "not judged, as what shows it is not to be had here: "}} {
			var ids, facts []string
			for _, t := range c.in(fate.state) {
				lacking := s.unknownAmong(t.lacking())
				if len(lacking) == 0 || stepOf(lacking[0]) != step.ID {
					continue
				}
				ids = append(ids, t.h.ID)
				for _, f := range lacking {
					facts = appendNew(facts, f)
				}
			}
			if len(ids) > 0 {
				gaps = append(gaps, Gap{Step: step.ID, Reason: fate.words + joinWords(ids), Facts: facts})
			}
		}
	}
	return gaps
}

// lacking returns the conditions for want of whose facts the trial came to nothing.
func (t *trial) lacking() []*Condition {
	if t.state == unjudged {
		return t.absent
	}
	return t.open
}
