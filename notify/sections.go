package notify

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// Section is a titled part of a report that every sink shows in its own way.
// All its text is one harmless line each, in the sense of Line.
type Section struct {
	Title string
	Items []Item
}

// TitleActions is the title of the section that tells what to do.
const TitleActions = "What to do"

// Item is one line of a section.
type Item struct {
	// Mark stands before the text: a number, a status, an arrow. May be empty.
	Mark string
	Text string
	// Depth is how far the item is indented, from 0.
	Depth int
	// Status colours the mark where a sink has colours.
	Status playbooks.Status
}

// String returns the item as a line of plain text.
func (i Item) String() string {
	s := strings.Repeat("  ", i.Depth)
	if i.Mark != "" {
		s += i.Mark + " "
	}
	return s + i.Text
}

// Detail says how much of a report is wanted.
type Detail int

// The amounts of detail.
const (
	// Digest leaves out single facts, and has the first rows of a table in one
	// line.
	Digest Detail = iota
	// Full has every fact, signal and source, and more rows, a line each.
	Full
)

// How many rows of one table are listed.
const (
	rowsInDigest = 3
	rowsInFull   = 20
)

// Sections takes a report apart, in the order in which an on-call needs it: the
// chain from the root to what it caused, the evidence, what to do, the layers in
// the playbook's order, what could not be looked at, what was ruled out.
// Sections without content are left out.
func Sections(r playbooks.Report, d Detail) []Section {
	all := []Section{
		{"Cause chain", chain(r.Causes, d)},
		{"Evidence", evidence(r.Causes, d)},
		{TitleActions, actions(r.Causes)},
		{"Layers", layers(r.Findings, d)},
		{"Could not be looked at", gaps(r.Gaps, d)},
		{"Ruled out", ruledOut(r.RuledOut, d)},
	}
	kept := all[:0]
	for _, s := range all {
		if len(s.Items) > 0 {
			kept = append(kept, s)
		}
	}
	return kept
}

// maxDepth bounds the indentation of a chain.
const maxDepth = 8

// chain draws every root with what follows from it, each cause once. A single
// cause is no chain: the headline has it already.
func chain(causes []playbooks.Cause, d Detail) []Item {
	if len(causes) < 2 {
		return nil
	}
	byID := make(map[string]int, len(causes))
	for i, c := range causes {
		byID[c.ID] = i
	}
	var items []Item
	seen := make([]bool, len(causes))
	var draw func(i, depth int)
	draw = func(i, depth int) {
		if seen[i] {
			return
		}
		seen[i] = true
		mark := "→"
		switch {
		case causes[i].Role == playbooks.Note:
			mark = "○"
		case depth == 0:
			mark = "●"
		}
		depth = min(depth, maxDepth)
		text := causeLine(causes[i])
		if since := causes[i].Since; !since.IsZero() {
			text += ", since " + since.UTC().Format("15:04:05 UTC")
		}
		items = append(items, Item{Mark: mark, Text: text, Depth: depth})
		if s := Line(causes[i].Summary, textRunes); s != "" && d == Full {
			items = append(items, Item{Text: s, Depth: depth + 1})
		}
		for _, id := range causes[i].Explains {
			if next, ok := byID[id]; ok {
				draw(next, depth+1)
			}
		}
	}
	for i, c := range causes {
		if c.Role == playbooks.Root {
			draw(i, 0)
		}
	}
	for i := range causes { // whatever no root explains must not vanish
		draw(i, 0)
	}
	return items
}

// evidence lists what speaks for the causes, the root's first, each fact once.
func evidence(causes []playbooks.Cause, d Detail) []Item {
	var items []Item
	seen := make(map[string]bool)
	for i, c := range causes {
		for _, o := range c.Evidence {
			if seen[o.Fact] {
				continue
			}
			seen[o.Fact] = true
			items = append(items, Item{Text: observation(o, d)})
		}
		if d == Full {
			items = append(items, signals("speaks against it", c, c.Disagree)...)
			items = append(items, signals("could not be told", c, c.Unknown)...)
			for _, caveat := range c.Caveats {
				items = append(items, Item{Text: "no surer (" + Line(c.ID, keyRunes) + "), as " + Line(caveat, textRunes)})
			}
		}
		if d == Digest && i == 0 && len(items) > 0 {
			break
		}
	}
	return items
}

func observation(o playbooks.Observation, d Detail) string {
	s := Line(o.Fact, keyRunes) + " = " + ValueWithin(o.Value, o.Unit, o.Interval)
	if e := Line(o.Expected, keyRunes); e != "" {
		s += ", expected " + e
	}
	if o.Onset != nil {
		s += ", " + Since(*o.Onset, o.Unit)
	}
	if d == Full {
		if from := Line(o.Source, keyRunes); from != "" {
			s += ", from " + from
		}
		if !o.At.IsZero() {
			s += " at " + o.At.UTC().Format("15:04:05")
		}
	}
	return s
}

func signals(what string, c playbooks.Cause, list []playbooks.Signal) []Item {
	items := make([]Item, 0, len(list))
	for _, s := range list {
		items = append(items, Item{Text: what + " (" + Line(c.ID, keyRunes) + "): " + Line(s.Condition, textRunes)})
	}
	return items
}

// actions numbers what to do about the roots, in order; what only follows from
// a root goes away with it.
func actions(causes []playbooks.Cause) []Item {
	var items []Item
	for i, c := range causes {
		if i > 0 && c.Role != playbooks.Root {
			continue
		}
		for _, a := range c.Actions {
			if a = Line(a, textRunes); a != "" {
				items = append(items, Item{Mark: strconv.Itoa(len(items)+1) + ".", Text: a})
			}
		}
	}
	return items
}

// SoFar says in a few harmless lines what the steps of a run that goes on have
// found.
func SoFar(findings []playbooks.Finding) []string {
	var lines []string
	for _, item := range layers(findings, Digest) {
		lines = append(lines, item.String())
	}
	return lines
}

func layers(findings []playbooks.Finding, d Detail) []Item {
	var items []Item
	for _, f := range findings {
		name := orElse(Line(f.Title, keyRunes), Line(f.Step, keyRunes))
		text := name
		switch {
		case f.Error != "" && d == Digest: // the gaps say why, once
			text += ": could not be measured"
		case f.Summary != "":
			text += ": " + Line(f.Summary, textRunes)
		case f.Error != "":
			text += ": could not be measured: " + Line(f.Error, textRunes)
		}
		mark := f.Status.String()
		if f.NotLookedAt {
			mark = "–" // the summary says why
		}
		items = append(items, Item{Mark: pad(mark, 8), Text: text, Status: f.Status})
		if because := Line(f.Because, textRunes); because != "" && (d == Full || f.Status > playbooks.OK) {
			items = append(items, Item{Text: "because " + because, Depth: 1})
		}
		if condition := Line(f.Condition, textRunes); d == Full && condition != "" && f.Condition != f.Because {
			items = append(items, Item{Text: "condition: " + condition, Depth: 1})
		}
		if d == Full && len(f.Facts) > 0 {
			items = append(items, Item{Text: factList(f.Facts), Depth: 1})
		}
		items = append(items, tables(f.Rows, d)...)
	}
	return items
}

func factList(facts []probes.Fact) string {
	parts := make([]string, len(facts))
	for i, f := range facts {
		parts[i] = Line(f.Name, keyRunes) + " " + ValueWithin(f.Value, f.Unit, f.Interval)
		if f.Onset != nil {
			parts[i] += " (" + Since(*f.Onset, f.Unit) + ")"
		}
	}
	return strings.Join(parts, "; ")
}

// tables lists rows under their table's name, in the order they came in.
func tables(rows []probes.Row, d Detail) []Item {
	var names []string
	byTable := make(map[string][]probes.Row)
	for _, r := range rows {
		if _, ok := byTable[r.Table]; !ok {
			names = append(names, r.Table)
		}
		byTable[r.Table] = append(byTable[r.Table], r)
	}
	var items []Item
	for _, name := range names {
		list := byTable[name]
		title := orElse(Line(name, keyRunes), "rows")
		limit := rowsInDigest
		if d == Full {
			limit = rowsInFull
		}
		if len(list) > limit {
			title += fmt.Sprintf(" (first %d of %s)", limit, Value(float64(len(list)), probes.Count))
			list = list[:limit]
		}
		lines := make([]string, len(list))
		for i, r := range list {
			lines[i] = orElse(Line(r.Key, keyRunes), "(empty)")
			if !r.Unknown {
				lines[i] += " " + Value(r.Value, r.Unit)
			}
			if note := Line(r.Note, textRunes); note != "" {
				lines[i] += " (" + note + ")"
			}
		}
		if d == Digest {
			items = append(items, Item{Text: title + ": " + strings.Join(lines, "; "), Depth: 1})
			continue
		}
		items = append(items, Item{Text: title, Depth: 1})
		for _, l := range lines {
			items = append(items, Item{Text: l, Depth: 2})
		}
	}
	return items
}
