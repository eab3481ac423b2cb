package playbooks_test

import (
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
)

// TestWords: where a playbook has words for a condition, the report says these,
// with their values, and keeps the condition beside them.
func TestWords(t *testing.T) {
	p := load(t, smallCatalog(), strings.NewReplacer(
		`when: a.x > 10, summary`, `when: a.x > 10, because: "{a.x} is too much", summary`,
		`when: a.y > 10, summary`, `when: a.y > 10, because: "[z is {a.z}]", summary`,
		`when: [a.x > 10]`, `when: [{when: a.x > 10, else: "x is only {a.x}[, z {a.z}]"}]`,
		`against: [b.z == 1]`, `against: [b.z == 2, {when: b.z == 1, because: "b is at {b.z}"}]`,
		`when: [b.y > 10]`, `when: [{when: b.y > 10}]`,
	).Replace(small))
	f := func(finding, ruledOut [2]string, ms ...playbooks.Measurement) {
		t.Helper()
		r := playbooks.Judge(p, ms)
		if err := schema(t)(encode(t, r)); err != nil {
			t.Errorf("report does not fit the schema: %v", err)
		}
		if got := r.Findings[0]; got.Because != finding[0] || got.Condition != finding[1] {
			t.Errorf("finding: got %q (%q), want %q", got.Because, got.Condition, finding)
		}
		var got [2]string
		if len(r.RuledOut) > 0 {
			got = [2]string{r.RuledOut[0].Because, r.RuledOut[0].Condition}
		}
		if got != ruledOut {
			t.Errorf("ruled out: got %q, want %q", got, ruledOut)
		}
	}
	b := saw("b", "x", 1.0, "y", 11.0, "z", 0.0)
	notSo := "not so: a.x (1.5) > 10"
	f([2]string{}, [2]string{"x is only 1.5", notSo}, saw("a", "x", 1.5, "y", 1.0), b)
	f([2]string{}, [2]string{"x is only 1.5, z 3", notSo}, saw("a", "x", 1.5, "y", 1.0, "z", 3.0), b)
	f([2]string{"11 is too much", "a.x (11) > 10"}, [2]string{}, saw("a", "x", 11.0, "y", 1.0), b)
	// Of words that come to nothing the condition is left.
	f([2]string{"a.y (11) > 10", "a.y (11) > 10"}, [2]string{"x is only 1.5", notSo}, saw("a", "x", 1.5, "y", 11.0), b)
	f([2]string{"z is 3", "a.y (11) > 10"}, [2]string{"x is only 1.5, z 3", notSo}, saw("a", "x", 1.5, "y", 11.0, "z", 3.0), b)
	// What speaks against a cause counts when all its signs are there.
	f([2]string{"11 is too much", "a.x (11) > 10"}, [2]string{"b is at 1", "b.z (1) == 1"}, saw("a", "x", 11.0), saw("b", "y", 11.0, "z", 1.0))
	f([2]string{"11 is too much", "a.x (11) > 10"}, [2]string{"b.z (2) == 2", "b.z (2) == 2"}, saw("a", "x", 11.0), saw("b", "y", 11.0, "z", 2.0))
	f([2]string{}, [2]string{"x is only 1.5", notSo}, saw("a", "x", 1.5, "y", 1.0), saw("b", "y", 11.0, "z", 1.0))
	f([2]string{"a.x (unknown) > 10", "a.x (unknown) > 10"}, [2]string{"b is at 1", "b.z (1) == 1"}, saw("a", "y", 1.0), saw("b", "y", 11.0, "z", 1.0))
	f([2]string{}, [2]string{"not so: b.y (1) > 10", "not so: b.y (1) > 10"}, saw("b", "y", 1.0))
}

// TestShippedWords: a human reads why each shipped cause is ruled out and what
// each sick status rests on.
func TestShippedWords(t *testing.T) {
	for _, p := range shipped(t) {
		for _, s := range p.Steps {
			for i, r := range s.Rules {
				if r.Status > playbooks.OK && r.Because == nil {
					t.Errorf("%s: step %s, rules[%d] has no words", p.Name, s.ID, i)
				}
			}
		}
		for _, h := range p.Causes {
			for _, c := range append(h.When, h.Against...) {
				if c.Words == nil {
					t.Errorf("%s: cause %s: %s has no words", p.Name, h.ID, c.Text)
				}
			}
		}
	}
}
