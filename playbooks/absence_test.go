package playbooks_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// asking is small with conditions that ask whether a fact is known.
func asking(t *testing.T) *playbooks.Playbook {
	t.Helper()
	return load(t, smallCatalog(), strings.NewReplacer(
		"{status: critical, when: a.x > 10,", "{status: critical, when: known(a.x) && a.x > 10,",
		"when: [a.x > 10]", "when: [known(a.x) && a.x > 10, a.y > 10]",
		"against: [b.z == 1]", "against: [known(b.z) && b.z == 1]",
		"title: Shallow\n", "title: Shallow\n    limits: [{at_most: low, unless: \"!measured(a.z) || a.z > 5\", because: z is low}]\n",
	).Replace(small))
}

// lacking adds facts that are not to be had.
func lacking(m playbooks.Measurement, facts ...string) playbooks.Measurement {
	m.Evidence.Missing = append(m.Evidence.Missing, probes.Missing{Facts: facts, Reason: "not offered", Absent: true})
	return m
}

// TestKnown: what was to be had and was not read leaves a condition open; what is
// not to be had decides it, but rules nothing out by itself.
func TestKnown(t *testing.T) {
	p := asking(t)
	valid := schema(t)
	f := func(want string, status playbooks.Status, ruledOut, gap string, ms ...playbooks.Measurement) {
		t.Helper()
		r := playbooks.Judge(p, ms)
		if err := valid(encode(t, r)); err != nil {
			t.Errorf("report does not fit the schema: %v", err)
		}
		if got := outline(r); got != want || r.Findings[0].Status != status {
			t.Errorf("got %q, %v, want %q, %v", got, r.Findings[0].Status, want, status)
		}
		if got := ids(r.RuledOut); got != ruledOut {
			t.Errorf("ruled out: got %q, want %q", got, ruledOut)
		}
		if gap != "" && !slices.ContainsFunc(r.Gaps, func(g playbooks.Gap) bool { return g.Reason == gap && !g.NoEffect }) {
			t.Errorf("got no gap %q: %+v", gap, r.Gaps)
		}
	}
	well := saw("b", "x", 1.0, "y", 1.0, "z", 0.0)
	f("healthy", playbooks.OK, "deep shallow", "", saw("a", "x", 1.0, "y", 1.0), well)
	// Not read, and not to be had. The other sign of the cause is there.
	f("inconclusive", playbooks.Warning, "shallow", "neither shown nor ruled out: deep", saw("a", "y", 11.0), well)
	f("inconclusive", playbooks.Warning, "shallow", "not judged, as what shows it is not to be had here: deep", lacking(saw("a", "y", 11.0), "x"), well)
	// It is not: that was measured, and rules out.
	f("inconclusive", playbooks.Unknown, "deep shallow", "", saw("a", "y", 1.0), well)
	f("healthy", playbooks.OK, "deep shallow", "", lacking(saw("a", "y", 1.0), "x"), well)
	// What speaks against a cause is unknown, not absent.
	deep := saw("a", "x", 11.0, "y", 11.0)
	f("cause-found deep:high", playbooks.Critical, "shallow", "", deep, well)
	f("cause-found deep:low", playbooks.Critical, "shallow", "", deep, lacking(saw("b", "x", 1.0, "y", 1.0), "z"))
	f("cause-found deep:low", playbooks.Critical, "shallow", "", deep, saw("b", "x", 1.0, "y", 1.0))
	// measured() holds a confidence down only by what was measured.
	f("cause-found shallow:high", playbooks.Warning, "deep", "", saw("a", "x", 1.0, "y", 11.0), saw("b", "x", 11.0, "y", 11.0))
	f("cause-found shallow:low", playbooks.Warning, "deep", "", saw("a", "x", 1.0, "y", 11.0, "z", 1.0), saw("b", "x", 11.0, "y", 11.0))
}

func ids(list []playbooks.RuledOut) string {
	var words []string
	for _, r := range list {
		words = append(words, r.ID)
	}
	return strings.Join(words, " ")
}

// TestMeasuredJudgesNothing: a condition that would be decided where reading failed
// is refused.
func TestMeasuredJudgesNothing(t *testing.T) {
	for _, place := range []string{"when: [a.x > 10]", "against: [b.z == 1]", "{when: b.x > 10}", "when: b.x >= 0"} {
		text := strings.Replace(small, place, strings.NewReplacer("a.x > 10", "measured(a.x)", "b.z == 1", "measured(b.z)",
			"b.x > 10", "measured(b.x)", "b.x >= 0", "measured(b.x)").Replace(place), 1)
		_, err := playbooks.Load(smallCatalog(), playbooks.File{Name: "f.yaml", Data: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), "measured() is no where reading failed") {
			t.Errorf("%s with measured(): got %v", place, err)
		}
	}
}

// TestNotLookedAt: a layer of which nothing is there neither hinders health nor
// passes for well.
func TestNotLookedAt(t *testing.T) {
	p := load(t, smallCatalog(), strings.Replace(small, "{status: ok, when: b.x < 0, summary: asleep}", "{status: not-looked-at, when: b.x < 0, summary: nothing there}", 1))
	a := saw("a", "x", 1.0, "y", 1.0)
	r := playbooks.Judge(p, []playbooks.Measurement{a, saw("b", "x", -1.0, "y", 1.0)})
	if err := schema(t)(encode(t, r)); err != nil {
		t.Errorf("report does not fit the schema: %v", err)
	}
	if f := r.Findings[1]; r.Verdict != playbooks.Healthy || f.Status != playbooks.Unknown || !f.NotLookedAt {
		t.Errorf("got %s, layer B %v, not looked at %v", r.Verdict, f.Status, f.NotLookedAt)
	}
	if want := "Nothing is wrong: Layer A is within bounds, and every known cause is ruled out. Not looked at: Layer B."; r.Summary != want {
		t.Errorf("summary: got %q, want %q", r.Summary, want)
	}
	r = playbooks.Judge(p, []playbooks.Measurement{a, saw("b", "y", 1.0)}) // whether it is there is not known
	if f := r.Findings[1]; r.Verdict == playbooks.Healthy || f.NotLookedAt {
		t.Errorf("nothing known: got %s, not looked at %v", r.Verdict, f.NotLookedAt)
	}
}

// deprive returns measurements without the facts of a step for which is holds:
// they are not told of, or not to be had.
func deprive(ms []playbooks.Measurement, absent bool, is func(fact string) bool) []playbooks.Measurement {
	less := slices.Clone(ms)
	for i, m := range ms {
		var gone []string
		facts := slices.DeleteFunc(slices.Clone(m.Evidence.Facts), func(f probes.Fact) bool {
			if !is(m.Step + "." + f.Name) {
				return false
			}
			gone = append(gone, f.Name)
			return true
		})
		missing := slices.Clone(m.Evidence.Missing)
		if absent && len(gone) > 0 {
			missing = append(missing, probes.Missing{Facts: gone, Reason: "not offered", Absent: true})
		}
		less[i].Evidence.Facts, less[i].Evidence.Missing = facts, missing
	}
	return less
}

// named are the facts of a condition with their values filled in.
var named = regexp.MustCompile(`(\w+\.\w+) \((unknown)?`)

// TestOnlyWhatWasMeasuredRulesOut: without any fact nothing is ruled out and nothing
// found; without those of one step, each from a third of the cases, whatever is ruled
// out is so by facts that are there, and is not if these are taken away as well.
func TestOnlyWhatWasMeasuredRulesOut(t *testing.T) {
	p := shipped(t)[0]
	byName := cases(t, p.Name)
	for turn, name := range slices.Sorted(maps.Keys(byName)) {
		ms := measurements(t, byName[name])
		for i, step := range p.Steps {
			if (turn+i)%3 != 0 {
				continue
			}
			for _, absent := range []bool{false, true} {
				blind := deprive(ms, absent, func(fact string) bool { return strings.HasPrefix(fact, step.ID+".") })
				r := playbooks.Judge(p, blind)
				for j, o := range r.RuledOut {
					facts := map[string]bool{}
					for _, m := range named.FindAllStringSubmatch(o.Condition, -1) {
						if m[2] == "" {
							facts[m[1]] = true
						}
					}
					if len(facts) == 0 || slices.ContainsFunc(slices.Collect(maps.Keys(facts)), func(f string) bool { return strings.HasPrefix(f, step.ID+".") }) {
						t.Errorf("%s without %s: %s is ruled out by what was not measured: %s", name, step.ID, o.ID, o.Condition)
					}
					if (turn/3+7*i+j)%97 != 0 { // one in a hundred, for the time it takes
						continue
					}
					less := playbooks.Judge(p, deprive(blind, absent, func(fact string) bool { return facts[fact] }))
					if k := slices.IndexFunc(less.RuledOut, func(l playbooks.RuledOut) bool { return l.ID == o.ID }); k >= 0 && less.RuledOut[k].Because == o.Because {
						t.Errorf("%s without %s: %s is still ruled out without what ruled it out: %s", name, step.ID, o.ID, o.Because)
					}
				}
			}
		}
	}
	for _, absent := range []bool{false, true} {
		r := playbooks.Judge(p, deprive(measurements(t, byName["well"]), absent, func(string) bool { return true }))
		if len(r.RuledOut)+len(r.Causes) > 0 || r.Verdict != playbooks.Inconclusive {
			t.Errorf("without any fact: %s, ruled out %s", outline(r), ids(r.RuledOut))
		}
	}
	if r := playbooks.Judge(p, nil); len(r.RuledOut)+len(r.Causes) > 0 || r.Verdict != playbooks.Inconclusive {
		t.Errorf("nothing measured: %s, ruled out %s", outline(r), ids(r.RuledOut))
	}
}
