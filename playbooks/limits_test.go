package playbooks_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// limited is small with limits, vital signs, remarks, names.
func limited(t *testing.T) *playbooks.Playbook {
	t.Helper()
	return load(t, smallCatalog(), strings.NewReplacer(
		"title: Deep\n", "title: Deep\n    headline: \"Deep in {a/rows}\"\n",
		"explains: [shallow]", "limits: [{at_most: low, unless: a.z > 5, because: \"z is {a.z}\"}]",
		"actions: [dig]", `actions: ["[Dig in {a/rows}.]", dig]`,
		"title: Shallow\n", "title: Shallow\n    limits: [{at_most: medium, unless: b.z > 5, because: z is low}]\n",
		"causes:\n", "healthy: [{when: a.z + b.z > 1, because: \"Asleep at {a.z}\"}]\nremarks: [{when: b.z == 7, say: \"Remarkable: {b/rows}\"}]\ncauses:\n",
	).Replace(small))
}

func row(m playbooks.Measurement, key string) playbooks.Measurement {
	m.Evidence.Rows = []probes.Row{{Table: "rows", Key: key}, {Table: "rows", Key: "second"}}
	return m
}

// TestLimits: a limit holds the confidence down unless its condition holds, and a
// note is no root beside a cause that is none.
func TestLimits(t *testing.T) {
	p := limited(t)
	valid := schema(t)
	f := func(want string, caveats []string, ms ...playbooks.Measurement) {
		t.Helper()
		r := playbooks.Judge(p, ms)
		if err := valid(encode(t, r)); err != nil {
			t.Errorf("report does not fit the schema: %v", err)
		}
		if got := outline(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if len(r.Causes) > 0 && !slices.Equal(r.Causes[len(r.Causes)-1].Caveats, caveats) {
			t.Errorf("caveats: got %q, want %q", r.Causes[len(r.Causes)-1].Caveats, caveats)
		}
	}
	calm := saw("b", "x", 1.0, "y", 1.0, "z", 0.0)
	f("cause-found deep:high", nil, saw("a", "x", 11.0, "y", 1.0, "z", 6.0), calm)
	f("cause-found deep:low", []string{"z is 5"}, saw("a", "x", 11.0, "y", 1.0, "z", 5.0), calm)
	f("cause-found deep:low", []string{"z is unknown"}, saw("a", "x", 11.0, "y", 1.0), calm)
	sick := saw("b", "x", 11.0, "y", 11.0, "z", 0.0)
	f("cause-found shallow:medium ~deep:low", []string{"z is 5"}, saw("a", "x", 11.0, "y", 11.0, "z", 5.0), sick)
	f("cause-found deep:high shallow:medium", []string{"z is low"}, saw("a", "x", 11.0, "y", 11.0, "z", 6.0), sick)
}

// TestNames: a sentence names the first row of a table, in one line and cut; what
// needs a row that is not there is left out.
func TestNames(t *testing.T) {
	p := limited(t)
	f := func(key, title string, actions ...string) {
		t.Helper()
		m := saw("a", "x", 11.0, "y", 1.0, "z", 6.0)
		if key != "" {
			m = row(m, key)
		}
		r := playbooks.Judge(p, []playbooks.Measurement{m, saw("b", "x", 1.0, "y", 1.0, "z", 7.0)})
		if c := r.Causes[0]; c.Title != title || !slices.Equal(c.Actions, actions) {
			t.Errorf("got %q, %q, want %q, %q", c.Title, c.Actions, title, actions)
		}
	}
	f("love", "Deep in love", "Dig in love.", "dig")
	f("", "Deep", "dig")
	f(" a\n{b}\t[c] ", "Deep in a {b} [c]", "Dig in a {b} [c].", "dig")
	long := strings.Repeat("長", 59) + "…"
	f(strings.Repeat("長", 5000), "Deep in "+long, "Dig in "+long+".", "dig")
}

// TestVitalSigns: without them nothing is healthy, be they absent or not known.
func TestVitalSigns(t *testing.T) {
	p := limited(t)
	f := func(verdict playbooks.Verdict, summary string, ms ...playbooks.Measurement) {
		t.Helper()
		r := playbooks.Judge(p, ms)
		if r.Verdict != verdict || !strings.HasPrefix(r.Summary, summary) {
			t.Errorf("got %s: %q, want %s: %q", r.Verdict, r.Summary, verdict, summary)
		}
	}
	b := saw("b", "x", 1.0, "y", 1.0, "z", 0.0)
	f(playbooks.Healthy, "Nothing is wrong", saw("a", "x", 1.0, "y", 1.0, "z", 2.0), b)
	f(playbooks.Inconclusive, "Asleep at 1.", saw("a", "x", 1.0, "y", 1.0, "z", 1.0), b)
	f(playbooks.Inconclusive, "Whether all is well cannot be told: a.z is unknown.", saw("a", "x", 1.0, "y", 1.0), b)
	f(playbooks.Inconclusive, "Nothing wrong was seen", saw("a", "x", 1.0, "y", 1.0, "z", 1.0))
}

func TestRemarks(t *testing.T) {
	p := limited(t)
	f := func(want bool, ms ...playbooks.Measurement) {
		t.Helper()
		r := playbooks.Judge(p, ms)
		if got := strings.HasSuffix(r.Summary, "Remarkable: love."); got != want {
			t.Errorf("%s: remark %v, want %v: %q", r.Verdict, got, want, r.Summary)
		}
	}
	remarkable, plain := row(saw("b", "x", 1.0, "y", 1.0, "z", 7.0), "love"), row(saw("b", "x", 1.0, "y", 1.0, "z", 6.0), "love")
	f(true, saw("a", "x", 11.0, "y", 1.0, "z", 6.0), remarkable)
	f(true, saw("a", "y", 1.0, "z", 6.0), remarkable)
	f(false, saw("a", "x", 11.0, "y", 1.0, "z", 6.0), plain)
	f(false, saw("a", "x", 1.0, "y", 1.0, "z", 6.0), remarkable)
}

// TestEvidenceSpeaksForTheCause: of alternatives only those that hold are shown.
func TestEvidenceSpeaksForTheCause(t *testing.T) {
	p := load(t, smallCatalog(), strings.Replace(small, "when: [a.x > 10]", `when: ["a.x > 10 || a.z > 10 && (b.x > 10 || b.y > 3)"]`, 1))
	f := func(want string, a, b playbooks.Measurement) {
		t.Helper()
		var facts []string
		for _, o := range playbooks.Judge(p, []playbooks.Measurement{a, b}).Causes[0].Evidence {
			facts = append(facts, o.Fact)
		}
		if got := strings.Join(facts, " "); got != want {
			t.Errorf("evidence: got %q, want %q", got, want)
		}
	}
	b := saw("b", "x", 1.0, "y", 5.0)
	f("a.x", saw("a", "x", 11.0, "y", 1.0, "z", 0.0), b)
	f("a.x", saw("a", "x", 11.0, "y", 1.0), b)
	f("a.z b.y", saw("a", "x", 1.0, "y", 1.0, "z", 11.0), b)
	f("a.x a.z b.y", saw("a", "x", 11.0, "y", 1.0, "z", 11.0), b)
}

// TestOneReason: a reason that holds for several steps is said once, and first.
func TestOneReason(t *testing.T) {
	p := load(t, smallCatalog(), small)
	gone := "the service does not answer (http://127.0.0.1:9: connection refused)"
	r := playbooks.Judge(p, []playbooks.Measurement{{Step: "a", Err: "no DSN; " + gone}, {Step: "b", Err: gone}})
	if want := "The service does not answer (http://127.0.0.1:9: connection refused): Layer A and Layer B could not be measured."; r.Summary != want {
		t.Errorf("got %q, want %q", r.Summary, want)
	}
	if len(r.Gaps) < 2 || r.Gaps[0].Reason != "no DSN; "+gone || r.Gaps[1].Reason != gone {
		t.Errorf("gaps: got %+v, want one for each step", r.Gaps)
	}
}

// TestGapsWithoutEffect: a gap says whether anything was left open for it.
func TestGapsWithoutEffect(t *testing.T) {
	p := load(t, smallCatalog(), small)
	r := playbooks.Judge(p, []playbooks.Measurement{saw("a", "x", 1.0, "y", 1.0), saw("b", "x", 1.0, "z", 0.0)})
	for _, g := range r.Gaps {
		if want := slices.Equal(g.Facts, []string{"a.z"}); g.NoEffect != want {
			t.Errorf("%+v: no effect %v, want %v", g, g.NoEffect, want)
		}
	}
}

// TestLongSentences: a sentence of nothing but faults is refused at once, however
// long it is.
func TestLongSentences(t *testing.T) {
	for _, mark := range []string{"{", "[", "}", "]", "{x}"} {
		for _, n := range []int{600, 50_000} {
			start := time.Now()
			text := strings.Replace(small, `"x is {a.x}"`, `"`+strings.Repeat(mark, n)+`"`, 1)
			_, err := playbooks.Load(smallCatalog(), playbooks.File{Name: "f.yaml", Data: []byte(text)})
			if err == nil {
				t.Fatalf("%d of %q load", n, mark)
			}
			if faults := strings.Count(err.Error(), "\n") + 1; faults > 30 {
				t.Errorf("%d of %q: %d faults are told", n, mark, faults)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%d of %q took %v", n, mark, took)
			}
		}
	}
}
