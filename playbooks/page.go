package playbooks

import (
	"fmt"
	"strings"
)

// Page returns what there is to know about a playbook's causes as a page of
// Markdown: what each is, how it looks, what it is mistaken for and what tells
// them apart, what to do. source names the playbook's file. The same playbook
// gives the same bytes.
func Page(p *Playbook, source string) string {
	var g page
	g.line("<!-- Generated from %s by diagnose docs. Do not edit. -->", source)
	g.line("# %s", p.Title)
	g.line("What the playbook `%s` looks at, and the %d causes it knows. A name such as `%s` is a fact: a number that the probe of that step measures.",
		p.Name, len(p.Causes), p.vocabulary.names[0])
	g.line("## Layers")
	for _, step := range p.Steps {
		g.step(step)
	}
	g.list("It is healthy only if", clauses(p.Healthy, "; if not: "))
	g.line("## Causes")
	for _, h := range p.Causes {
		g.item("[%s](#%s): %s", h.ID, h.ID, h.Title)
	}
	for _, h := range p.Causes {
		g.cause(p, h)
	}
	return g.text()
}

// page gathers Markdown blocks.
type page struct{ blocks []string }

func (g *page) text() string { return strings.Join(g.blocks, "\n\n") + "\n" }

func (g *page) line(format string, args ...any) {
	g.blocks = append(g.blocks, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// item adds an item to the list that the last block is, or begins one.
func (g *page) item(format string, args ...any) {
	item := "- " + fmt.Sprintf(format, args...)
	if last := len(g.blocks) - 1; strings.HasPrefix(g.blocks[last], "- ") {
		g.blocks[last] += "\n" + item
		return
	}
	g.blocks = append(g.blocks, item)
}

// list adds a titled list, if there is anything in it.
func (g *page) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	g.line("**%s**", title)
	for _, i := range items {
		g.item("%s", i)
	}
}

func (g *page) step(s *Step) {
	g.line("### %s", s.Title)
	g.line("Step `%s`, probe `%s`. The first rule that holds gives the status.", s.ID, s.Kind)
	for _, r := range s.Rules {
		when := "otherwise"
		if r.When != nil {
			when = "when " + code(r.When.Text)
		}
		status := r.Status.String()
		if r.Status == Unknown {
			status = "not looked at"
		}
		g.item("**%s** %s: %s", status, when, r.Summary.page())
	}
}

func (g *page) cause(p *Playbook, h *Hypothesis) {
	g.line("### %s", h.ID)
	g.line("**%s**", full(h.Title))
	if h.About != "" {
		g.line("%s", flat(h.About))
	}
	if h.Looks != "" {
		g.line("**How it looks.** %s", flat(h.Looks))
	}
	var lookalikes []string
	for _, m := range h.MistakenFor {
		lookalikes = append(lookalikes, fmt.Sprintf("[%s](#%s): %s", m.ID, m.ID, flat(m.Check)))
	}
	g.list("Mistaken for, and what tells them apart", lookalikes)
	g.list("It is this when all of these hold", clauses(h.When, "; if not: "))
	var signals []string
	for _, s := range h.Signals {
		text := code(s.When.Text)
		if s.Weight != 1 {
			text += ", weight " + formatRaw(s.Weight)
		}
		signals = append(signals, text)
	}
	g.list("What speaks for it", signals)
	var limits []string
	for _, l := range h.Limits {
		limits = append(limits, fmt.Sprintf("%s unless %s: %s", l.AtMost, code(l.Unless.Text), l.Because.page()))
	}
	g.list("How sure it can be at most", limits)
	g.list("It is not this when any of these holds", clauses(h.Against, ": "))
	var actions []string
	for _, a := range h.Actions {
		actions = append(actions, a.page())
	}
	g.list("What to do now", actions)
	g.list("What to do for good", h.Lasting)
	g.line("**Layer.** %s.%s", p.Steps[p.index[h.Layer]].Title, explains(h))
	g.line("**Source.** %s", full(flat(h.Source)))
}

// explains says what follows from a cause.
func explains(h *Hypothesis) string {
	if len(h.Explains) == 0 {
		return ""
	}
	links := make([]string, len(h.Explains))
	for i, e := range h.Explains {
		links[i] = fmt.Sprintf("[%s](#%s)", e.ID, e.ID)
		if e.When != nil {
			links[i] += " (when " + code(e.When.Text) + ")"
		}
	}
	return " Explains " + joinWords(links) + ", which then need no cause of their own."
}

// clauses sets conditions with their words, if they have any, after a joint.
func clauses(list []Clause, joint string) (items []string) {
	for _, c := range list {
		item := code(c.Text)
		if c.Words != nil {
			item += joint + c.Words.page()
		}
		items = append(items, item)
	}
	return items
}

// code sets a text as code; conditions and names hold no backticks.
func code(text string) string { return "`" + text + "`" }

// flat puts a text in one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// page returns the sentence with its facts set as code.
func (t *Template) page() string {
	var b strings.Builder
	for _, s := range t.stretches {
		for _, p := range s.parts {
			if p.fact || p.row {
				b.WriteString(code(p.text))
				if p.above != "" {
					b.WriteString(" " + p.above + " or " + p.below)
				}
			} else {
				b.WriteString(p.text)
			}
		}
	}
	return flat(b.String())
}
