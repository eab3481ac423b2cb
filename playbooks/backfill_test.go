package playbooks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// fillIn gives the evidence of a case what it lacks of the wanted facts
// ("redis.ping_seconds") and steps ("postgres"). A step that could not be
// measured lacks nothing.
func fillIn(t *testing.T, p *playbooks.Playbook, dir string, wanted []string) {
	t.Helper()
	base := baseOf(t, p)
	ms := measurements(t, dir)
	for _, name := range wanted {
		step, fact, isFact := strings.Cut(name, ".")
		b, known := base[step]
		if !known {
			t.Fatalf("backfill: the base of the unit tests has no step %q", step)
		}
		i := slices.IndexFunc(ms, func(m playbooks.Measurement) bool { return m.Step == step })
		switch {
		case i < 0 && !isFact && len(ms) > 0:
			b.Evidence.Source, b.Evidence.At = ms[0].Evidence.Source, ms[0].Evidence.At
			ms = append(ms, b)
		case i >= 0 && isFact && ms[i].Err == "" && !mentions(ms[i].Evidence, fact):
			if !mentions(b.Evidence, fact) {
				t.Fatalf("backfill: the base of the unit tests has no fact %q", name)
			}
			for _, f := range b.Evidence.Facts {
				if f.Name == fact {
					ms[i].Evidence.Facts = append(ms[i].Evidence.Facts, f)
				}
			}
			for _, m := range b.Evidence.Missing {
				if slices.Contains(m.Facts, fact) {
					ms[i].Evidence.Missing = append(ms[i].Evidence.Missing, m)
				}
			}
		}
	}
	data, err := json.MarshalIndent(ms, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "evidence.json"), append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mentions says whether the evidence says anything of a fact.
func mentions(e probes.Evidence, fact string) bool {
	return slices.ContainsFunc(e.Facts, func(f probes.Fact) bool { return f.Name == fact }) ||
		slices.ContainsFunc(e.Missing, func(m probes.Missing) bool { return slices.Contains(m.Facts, fact) })
}

// baseOf returns the evidence that the unit tests of a playbook begin with.
func baseOf(t *testing.T, p *playbooks.Playbook) map[string]playbooks.Measurement {
	t.Helper()
	tests, err := playbooks.BuiltinTests()
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(tests[0].Data), "\ntests:")
	suite, err := playbooks.LoadSuite(playbooks.File{Name: "base", Data: []byte(head + "\ntests: [{name: base, expect: {verdict: healthy}}]\n")},
		playbooks.Surroundings{Playbook: func(string) (*playbooks.Playbook, error) { return p, nil }})
	if err != nil {
		t.Fatal(err)
	}
	base := map[string]playbooks.Measurement{}
	for _, m := range suite.Cases[0].Measurements {
		base[m.Step] = m
	}
	return base
}
