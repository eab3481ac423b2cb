package playbooks

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/regpath/diagnose/probes"
)

// Template is a sentence with facts in it, each written in its unit: "fill
// ratio {bloom.fill_ratio}". A stretch in square brackets is left out while a
// fact in it is unknown; elsewhere such a fact reads "unknown".
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

// marks matches a fact in braces, and the braces and brackets by themselves.
var marks = regexp.MustCompile(`\{([^{}\[\]]*)\}|[{}\[\]]`)

// template checks and splits a summary. scope limits it to one step's facts.
func (v *vocabulary) template(text, scope string) (*Template, []slip) {
	t := &Template{Text: strings.Join(strings.Fields(text), " "), facts: v.facts}
	var slips []slip
	var current stretch
	wrong := func(offset int, s slip) {
		s.line, s.column = placeOf(text, offset)
		slips = append(slips, s)
	}
	from := 0
	for _, m := range marks.FindAllStringSubmatchIndex(text, -1) {
		current.parts = append(current.parts, part{text: text[from:m[0]]})
		from = m[1]
		switch mark := text[m[0]:m[1]]; {
		case m[2] >= 0:
			name := text[m[2]:m[3]]
			if s, bad := v.lookUp(name, scope); bad {
				wrong(m[2], s)
			}
			current.parts = append(current.parts, part{text: name, fact: true})
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
	if len(slips) > 0 {
		return nil, slips
	}
	current.parts = append(current.parts, part{text: text[from:]})
	t.stretches = append(t.stretches, current)
	return t, nil
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

// fillOr is fill, or the other text where there is no sentence or nothing of it
// is known.
func (t *Template) fillOr(other string, s *sights) string {
	if t == nil {
		return other
	}
	return cmp.Or(t.fill(s), other)
}

func (t *Template) fillStretch(st stretch, s *sights) (text string, complete bool) {
	var b strings.Builder
	complete = true
	for _, p := range st.parts {
		switch o, known := s.known[p.text]; {
		case !p.fact:
			b.WriteString(p.text)
		case known:
			b.WriteString(FormatValue(o.Value, t.facts[p.text].Unit))
		default:
			b.WriteString("unknown")
			complete = false
		}
	}
	return b.String(), complete
}
