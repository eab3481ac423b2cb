package playbooks

import (
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// truth is the outcome of a condition.
type truth int

const (
	open truth = iota // what is known does not decide it
	no
	yes
)

// Condition is a compiled CEL expression over facts.
type Condition struct {
	// Text is the expression in one line.
	Text string
	// Facts holds the full names of the facts it uses, in order, each once.
	Facts []string

	program cel.Program
	parts   []part
	// asks says that the condition asks known(), measures that it asks measured().
	asks, measures bool
	// tree takes a condition apart that has alternatives; nil for others.
	tree *branch
}

// part is a stretch of a text: literal, or the name of a fact or of a table.
type part struct {
	text      string
	fact, row bool
	// above and below are the words for a fact that may be negative, which is then
	// written without its sign.
	above, below string
}

// qualified matches what may be the full name of a fact.
var qualified = regexp.MustCompile(`[A-Za-z_]\w*\.[A-Za-z_]\w*`)

// split cuts a condition at the facts it names.
func (v *vocabulary) split(text string) (parts []part) {
	from := 0
	for _, m := range qualified.FindAllStringIndex(text, -1) {
		if _, ok := v.facts[text[m[0]:m[1]]]; !ok {
			continue
		}
		parts = append(parts, part{text: text[from:m[0]]}, part{text: text[m[0]:m[1]], fact: true})
		from = m[1]
	}
	return append(parts, part{text: text[from:]})
}

// holds evaluates the condition, once for what was seen. One that fails to
// evaluate is open.
func (c *Condition) holds(s *sights) truth {
	t, known := s.truths[c]
	if !known {
		t = c.evaluate(s)
		s.truths[c] = t
	}
	return t
}

func (c *Condition) evaluate(s *sights) truth {
	out, _, err := c.program.Eval(s.activation)
	if err != nil {
		return open
	}
	switch out {
	case types.True:
		return yes
	case types.False:
		return no
	}
	return open
}

// byAbsence says that a condition is decided by what is not to be had, although
// nothing that was measured has a say in it: it would be the same whatever the
// facts are that are to be had.
func (c *Condition) byAbsence(s *sights) bool {
	if !c.asks || !slices.ContainsFunc(c.Facts, func(f string) bool { return s.lacks[f] == absent }) {
		return false
	}
	variables := make(map[string]any, len(c.Facts))
	unknown := make([]*cel.AttributePatternType, 0, 2*len(c.Facts))
	for _, f := range c.Facts {
		unknown = append(unknown, cel.AttributePattern(f))
		if measured := s.measured(f); measured || s.lacks[f] != unread {
			variables[knownPrefix+f] = measured
		} else {
			unknown = append(unknown, cel.AttributePattern(knownPrefix+f))
		}
	}
	only, err := cel.PartialVars(variables, unknown...)
	if err != nil {
		return false
	}
	out, _, err := c.program.Eval(only)
	return err == nil && (out == types.True || out == types.False)
}

// fill returns the condition with its values: "bloom.fill_ratio (0.97) > 0.5".
func (c *Condition) fill(s *sights) string {
	var b strings.Builder
	for _, p := range c.parts {
		b.WriteString(p.text)
		if !p.fact {
			continue
		}
		if o, ok := s.known[p.text]; ok {
			b.WriteString(" (" + formatRaw(o.Value) + ")")
		} else {
			b.WriteString(" (unknown)")
		}
	}
	return b.String()
}
