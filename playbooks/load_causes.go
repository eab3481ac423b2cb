package playbooks

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// causes reads the causes and checks how they refer to each other.
func (l *loader) causes(entries []entry, p *Playbook) {
	var files []causeFile
	var ids []string
	for _, e := range entries {
		l.turn(e.sheet)
		var f causeFile
		l.decode(e.node, reflect.ValueOf(&f).Elem(), e.path)
		h := l.cause(e.node, f, e.path)
		if h.ID != "" && slices.Contains(ids, h.ID) {
			l.add(f.ID.node, e.path+".id", fmt.Sprintf("duplicate cause %q", h.ID), "an id of its own")
		}
		ids = append(ids, h.ID)
		files = append(files, f)
		p.Causes = append(p.Causes, h)
	}
	for i, f := range files {
		l.turn(entries[i].sheet)
		for j, n := range f.Explains {
			e := l.effect(n, fmt.Sprintf("%s.explains[%d]", entries[i].path, j), ids)
			if slices.ContainsFunc(p.Causes[i].Explains, func(other Effect) bool { return other.ID == e.ID }) {
				l.add(n, fmt.Sprintf("%s.explains[%d]", entries[i].path, j), fmt.Sprintf("duplicate cause %q", e.ID), "each once")
			}
			p.Causes[i].Explains = append(p.Causes[i].Explains, e)
		}
		if f.MistakenFor != nil {
			l.lookalikes(f.MistakenFor, entries[i].path+".mistaken_for", p.Causes[i], ids)
		}
	}
	l.cycles(entries, files, p.Causes)
}

func (l *loader) cause(n *yaml.Node, f causeFile, path string) *Hypothesis {
	h := &Hypothesis{
		ID:      l.id(n, f.ID, path+".id", dashedID, "lower-case words joined by dashes"),
		Title:   l.required(n, f.Title, path+".title"),
		Summary: l.summary(n, f.Summary, path+".summary", ""),
		Layer:   l.required(n, f.Layer, path+".layer"),
		Source:  l.required(n, f.Source, path+".source"),
		About:   l.optional(f.About, path+".about"),
		Looks:   l.optional(f.Looks, path+".looks"),
		place:   l.place(n),
	}
	if h.Layer != "" {
		l.reference(f.Layer, path+".layer", "step", l.vocabulary.steps)
	}
	for i, t := range f.Affects {
		l.reference(t, fmt.Sprintf("%s.affects[%d]", path, i), "step", l.vocabulary.steps)
		h.Affects = append(h.Affects, t.Value)
	}
	if len(f.When) == 0 && !l.faulty(path+".when") {
		l.add(n, path+".when", "no conditions", "at least one")
	}
	if len(f.Actions) == 0 && !l.faulty(path+".actions") {
		l.add(n, path+".actions", "no actions", "at least one thing to do")
	}
	for i, n := range f.When {
		h.When = append(h.When, l.when(n, fmt.Sprintf("%s.when[%d]", path, i)))
	}
	for i, n := range f.Against {
		h.Against = append(h.Against, l.against(n, fmt.Sprintf("%s.against[%d]", path, i)))
	}
	for i, n := range f.Signals {
		h.Signals = append(h.Signals, l.signal(n, fmt.Sprintf("%s.signals[%d]", path, i)))
	}
	for i, n := range f.Limits {
		h.Limits = append(h.Limits, l.limit(n, fmt.Sprintf("%s.limits[%d]", path, i)))
	}
	h.Headline = l.words(f.Headline, path+".headline", "")
	certain := len(f.Actions) == 0
	for i, t := range f.Actions {
		a := l.summary(n, t, fmt.Sprintf("%s.actions[%d]", path, i), "")
		h.Actions = append(h.Actions, a)
		certain = certain || a == nil || !a.vanishes()
	}
	if !certain {
		l.add(n, path+".actions", "every action may be left out", "one that is not in square brackets as a whole")
	}
	for i, t := range f.Lasting {
		h.Lasting = append(h.Lasting, l.required(n, t, fmt.Sprintf("%s.lasting[%d]", path, i)))
	}
	return h
}

// lookalikes reads which causes a cause is mistaken for, in order.
func (l *loader) lookalikes(n *yaml.Node, path string, h *Hypothesis, ids []string) {
	l.entries(n, path, func(key, value *yaml.Node) {
		l.reference(text{Value: key.Value, node: key}, path, "cause", ids)
		if key.Value == h.ID {
			l.add(key, path, "a cause is not mistaken for itself", "another cause")
		}
		var check text
		l.decode(value, reflect.ValueOf(&check).Elem(), join(path, key.Value))
		h.MistakenFor = append(h.MistakenFor, Lookalike{ID: key.Value, Check: l.required(value, check, join(path, key.Value))})
	})
}

// when reads a condition that must hold, with or without words.
func (l *loader) when(n *yaml.Node, path string) Clause {
	if n.Kind != yaml.MappingNode {
		return l.bare(n, path)
	}
	var f whenFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	return l.clause(n, f.When, f.Else, path, ".else")
}

// effect reads a cause that follows, always or when a condition holds.
func (l *loader) effect(n *yaml.Node, path string, ids []string) (e Effect) {
	var id text
	if n.Kind != yaml.MappingNode {
		l.decode(n, reflect.ValueOf(&id).Elem(), path)
	} else {
		var f effectFile
		l.decode(n, reflect.ValueOf(&f).Elem(), path)
		if l.required(n, f.When, path+".when") != "" {
			e.When = l.firm(f.When, path+".when", "")
		}
		l.required(n, f.Cause, path+".cause")
		id, path = f.Cause, path+".cause"
	}
	if id.set() {
		l.reference(id, path, "cause", ids)
		e.ID = id.Value
	}
	return e
}

// against reads a condition that refutes, with or without words.
func (l *loader) against(n *yaml.Node, path string) Clause {
	if n.Kind != yaml.MappingNode {
		return l.bare(n, path)
	}
	var f againstFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	return l.clause(n, f.When, f.Because, path, ".because")
}

// bare reads a condition that is all there is to a clause.
func (l *loader) bare(n *yaml.Node, path string) (c Clause) {
	var t text
	l.decode(n, reflect.ValueOf(&t).Elem(), path)
	if t.set() {
		c.Condition = l.firm(t, path, "")
	}
	return c
}

func (l *loader) clause(n *yaml.Node, when, words text, path, key string) (c Clause) {
	if l.required(n, when, path+".when") != "" {
		c.Condition = l.firm(when, path+".when", "")
	}
	c.Words = l.words(words, path+key, "")
	return c
}

// vital reads a condition without which a service is not called healthy.
func (l *loader) vital(n *yaml.Node, path string) Clause {
	var f againstFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	l.required(n, f.Because, path+".because")
	return l.clause(n, f.When, f.Because, path, ".because")
}

func (l *loader) remark(n *yaml.Node, path string) Clause {
	var f remarkFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	l.required(n, f.Say, path+".say")
	var c Clause
	if l.required(n, f.When, path+".when") != "" {
		c.Condition = l.condition(f.When, path+".when", "")
	}
	c.Words = l.words(f.Say, path+".say", "")
	return c
}

func (l *loader) limit(n *yaml.Node, path string) (limit Limit) {
	var f limitFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	switch word := Confidence(l.required(n, f.AtMost, path+".at_most")); word {
	case Medium, Low:
		limit.AtMost = word
	case "":
	default:
		levels := []string{string(Medium), string(Low)}
		l.addWord(f.AtMost.node, path+".at_most", fmt.Sprintf("unknown limit %q", word), strings.Join(levels, " or "), levels)
	}
	if l.required(n, f.Unless, path+".unless") != "" {
		limit.Unless = l.condition(f.Unless, path+".unless", "")
	}
	limit.Because = l.summary(n, f.Because, path+".because", "")
	return limit
}

func (l *loader) signal(n *yaml.Node, path string) Indication {
	var f signalFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	s := Indication{Weight: 1, Expected: f.Expected.Value}
	if l.required(n, f.When, path+".when") != "" {
		s.When = l.firm(f.When, path+".when", "")
	}
	if f.Weight != nil && !l.faulty(path+".weight") {
		s.Weight = *f.Weight
		if !(s.Weight > 0) || math.IsInf(s.Weight, 0) || s.Weight > 100 {
			l.add(n, path+".weight", fmt.Sprintf("bad weight %v", s.Weight), "a number above 0 and at most 100")
		}
	}
	return s
}

// cycles notes every reference that closes a circle of explanations: with one
// there would be no root.
func (l *loader) cycles(entries []entry, files []causeFile, causes []*Hypothesis) {
	const (
		fresh = iota
		onPath
		done
	)
	state := make([]int, len(causes))
	var trail []string
	var visit func(i int)
	visit = func(i int) {
		state[i] = onPath
		trail = append(trail, causes[i].ID)
		for j, e := range causes[i].Explains {
			next := slices.IndexFunc(causes, func(h *Hypothesis) bool { return h.ID == e.ID })
			switch {
			case next < 0:
			case state[next] == fresh:
				visit(next)
			case state[next] == onPath:
				circle := append(slices.Clone(trail[slices.Index(trail, e.ID):]), e.ID)
				l.turn(entries[i].sheet)
				l.add(files[i].Explains[j], fmt.Sprintf("%s.explains[%d]", entries[i].path, j), "causes explain each other in a circle: "+strings.Join(circle, ", "), "a chain that ends")
			}
		}
		trail = trail[:len(trail)-1]
		state[i] = done
	}
	for i := range causes {
		if state[i] == fresh {
			visit(i)
		}
	}
}
