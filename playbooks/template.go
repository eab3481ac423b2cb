package playbooks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/regpath/diagnose/playbooks/spelling"
	"github.com/regpath/diagnose/probes"
)

// Template is a sentence with facts in it, each written in its unit: "fill
// ratio {bloom.fill_ratio}"; and with the keys of rows, each that of the first
// row of a table: "shard {shards/failing}". A stretch in square brackets is left
// out while a fact in it is unknown or a table has no row; elsewhere such a thing
// reads "unknown". A fact that may be negative can have two words, for its two
// signs: "the clock is {clock.offset_seconds ahead|behind}".
type Template struct {
	// Text is the sentence as the playbook has it, in one line.
	Text string

	stretches []stretch
	facts     map[string]probes.FactDoc
}

// stretch is a run of parts that stand or fall together.
type stretch struct {
	parts    []part
	optional bool
}

// Limits on a sentence: it is read by a human at three in the morning, and its
// faults by whoever wrote it.
const (
	maxTemplateRunes = 2000
	maxTemplateSlips = 20
)

// marks matches a fact in braces, and the braces and brackets by themselves.
var marks = regexp.MustCompile(`\{([^{}\[\]]*)\}|[{}\[\]]`)

// template checks and splits a summary. scope limits it to one step's facts.
func (v *vocabulary) template(text, scope string) (*Template, []slip) {
	if n := utf8.RuneCountInString(text); n > maxTemplateRunes {
		return nil, []slip{{line: 1, problem: fmt.Sprintf("sentence is too long: %d characters", n), expected: fmt.Sprintf("at most %d", maxTemplateRunes)}}
	}
	t := &Template{Text: strings.Join(strings.Fields(text), " "), facts: v.facts}
	var slips []slip
	untold := 0
	var current stretch
	wrong := func(offset int, s slip) {
		if len(slips) == maxTemplateSlips {
			untold++
			return
		}
		s.line, s.column = placeOf(text, offset)
		slips = append(slips, s)
	}
	from := 0
	for _, m := range marks.FindAllStringSubmatchIndex(text, -1) {
		current.parts = append(current.parts, part{text: text[from:m[0]]})
		from = m[1]
		switch mark := text[m[0]:m[1]]; {
		case m[2] >= 0:
			name, above, below := signs(text[m[2]:m[3]])
			isRow := strings.Contains(name, "/")
			check := v.lookUp
			if isRow {
				check = v.lookUpTable
			}
			if s, bad := check(name, scope); bad {
				wrong(m[2], s)
			}
			current.parts = append(current.parts, part{text: name, fact: !isRow, row: isRow, above: above, below: below})
		case mark == "[" && !current.optional, mark == "]" && current.optional:
			t.stretches = append(t.stretches, current)
			current = stretch{optional: mark == "["}
		default:
			wrong(m[0], slip{problem: "stray " + mark + " in a sentence", expected: "facts in braces, {bloom.fill_ratio}, and what depends on them in square brackets"})
		}
	}
	if current.optional {
		wrong(len(text), slip{problem: "missing ] in a sentence"})
	}
	if untold > 0 {
		slips = append(slips, slip{line: 1, problem: fmt.Sprintf("and %d more faults in this sentence", untold)})
	}
	if len(slips) > 0 {
		return nil, slips
	}
	current.parts = append(current.parts, part{text: text[from:]})
	t.stretches = append(t.stretches, current)
	return t, nil
}

// lookUpTable says what is wrong with the name of a table, if anything.
func (v *vocabulary) lookUpTable(name, scope string) (slip, bool) {
	step, _, _ := strings.Cut(name, "/")
	if slices.Contains(v.tables, name) && (scope == "" || scope == step) {
		return slip{}, false
	}
	s := slip{word: name, problem: fmt.Sprintf("unknown table %q", name), suggestion: spelling.Nearest(name, v.tables), echo: v.blind[step]}
	switch {
	case slices.Contains(v.tables, name):
		s.problem, s.suggestion = fmt.Sprintf("table %q belongs to another step", name), ""
		s.expected = fmt.Sprintf("tables of the step %q; only causes look across steps", scope)
	case s.suggestion == "":
		s.expected = "<step>/<table>, a table that the step's probe documents"
	}
	return s, true
}

// signs takes "fact above|below" apart; anything else is a name by itself.
func signs(text string) (name, above, below string) {
	name, words, _ := strings.Cut(text, " ")
	if above, below, both := strings.Cut(words, "|"); both {
		return name, above, below
	}
	return text, "", ""
}

// placeOf returns the line (from 1) and column (from 0) of an offset.
func placeOf(text string, offset int) (line, column int) {
	before := text[:offset]
	return strings.Count(before, "\n") + 1, len([]rune(before[strings.LastIndex(before, "\n")+1:]))
}

// fill returns the sentence with its values.
func (t *Template) fill(s *sights) string {
	var whole strings.Builder
	for _, stretch := range t.stretches {
		text, complete := t.fillStretch(stretch, s)
		if complete || !stretch.optional {
			whole.WriteString(text)
		}
	}
	return strings.Join(strings.Fields(whole.String()), " ")
}

// vanishes says whether nothing may be left of the sentence.
func (t *Template) vanishes() bool {
	return !slices.ContainsFunc(t.stretches, func(st stretch) bool {
		return !st.optional && slices.ContainsFunc(st.parts, func(p part) bool { return strings.TrimSpace(p.text) != "" })
	})
}

// fillOr is fill, or the other text where there is no sentence or nothing of it
// is known.
func (t *Template) fillOr(other string, s *sights) string {
	if t == nil {
		return other
	}
	return cmp.Or(t.fill(s), other)
}

// fillWhole is fill, and whether all that the sentence names outside of brackets
// is known.
func (t *Template) fillWhole(s *sights) (text string, complete bool) {
	if t == nil {
		return "", false
	}
	complete = true
	for _, stretch := range t.stretches {
		_, known := t.fillStretch(stretch, s)
		complete = complete && (known || stretch.optional)
	}
	return t.fill(s), complete
}

func (t *Template) fillStretch(st stretch, s *sights) (text string, complete bool) {
	var b strings.Builder
	complete = true
	for _, p := range st.parts {
		value, known := p.text, true
		switch {
		case p.row:
			value, known = s.firstRows[p.text], s.firstRows[p.text] != ""
		case p.fact:
			var o observed
			if o, known = s.known[p.text]; known {
				value = p.format(o.Value, t.facts[p.text].Unit)
			}
		}
		if !known {
			value, complete = "unknown", false
		}
		b.WriteString(value)
	}
	return b.String(), complete
}

// format writes the value of a fact.
func (p part) format(v float64, unit probes.Unit) string {
	switch {
	case p.above == "" && p.below == "":
		return FormatValue(v, unit)
	case v < 0:
		return FormatValue(-v, unit) + " " + p.below
	}
	return FormatValue(v, unit) + " " + p.above
}
