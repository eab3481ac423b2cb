package playbooks_test

import (
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

func TestCheckRecovery(t *testing.T) {
	t.Parallel()
	cause := func(id string, role playbooks.Role) playbooks.Cause {
		return playbooks.Cause{ID: id, Title: "The " + id, Role: role, Evidence: []playbooks.Observation{{Fact: "redis." + id, Value: 0.9, Unit: probes.Ratio}}}
	}
	found := func(causes ...playbooks.Cause) playbooks.Report {
		return playbooks.Report{ID: "r", Verdict: playbooks.CauseFound, Causes: causes}
	}
	well := func(verdict playbooks.Verdict, ruledOut ...string) playbooks.Report {
		r := playbooks.Report{
			ID: "again", Verdict: verdict,
			Findings: []playbooks.Finding{{Step: "redis", Facts: []probes.Fact{{Name: "a", Value: 0.1, Unit: probes.Ratio}}}},
		}
		for _, id := range ruledOut {
			r.RuledOut = append(r.RuledOut, playbooks.RuledOut{ID: id})
		}
		return r
	}
	a, b := cause("a", playbooks.Root), cause("b", playbooks.Root)
	follows := cause("a", playbooks.Consequence)
	for _, c := range []struct {
		name      string
		then, now playbooks.Report
		want      playbooks.Recovered
		because   string
	}{
		{"healthy", found(a), well(playbooks.Healthy, "a", "b"), playbooks.RecoveredYes, "healthy"},
		{"refuted, the rest unknown", found(a), well(playbooks.Inconclusive, "a"), playbooks.RecoveredYes, "gone; whether all else is well could not be told"},
		{"still there", found(a), found(a), playbooks.RecoveredNo, "still there: The a"},
		{"now a consequence", found(a), found(b, follows), playbooks.RecoveredNo, "still there: The a"},
		{"one of two still there", found(a, b), func() playbooks.Report {
			r := found(b)
			r.RuledOut = []playbooks.RuledOut{{ID: "a"}}
			return r
		}(), playbooks.RecoveredNo, "still there: The b"},
		{"another cause", found(a), func() playbooks.Report {
			r := found(b)
			r.RuledOut = []playbooks.RuledOut{{ID: "a"}}
			return r
		}(), playbooks.RecoveredNo, "another cause was found: The b"},
		{"not measured", found(a), well(playbooks.Inconclusive), playbooks.RecoveredUnknown, "could not be measured again: The a"},
		{"nothing found, healthy now", well(playbooks.Inconclusive), well(playbooks.Healthy), playbooks.RecoveredYes, "healthy"},
		{"nothing found, nothing now", well(playbooks.Inconclusive), well(playbooks.Inconclusive), playbooks.RecoveredUnknown, "no cause had been found"},
		{"nothing found, a cause now", well(playbooks.Inconclusive), found(a), playbooks.RecoveredNo, "another cause was found: The a"},
	} {
		got := playbooks.CheckRecovery(c.then, c.now)
		if got.Outcome != c.want || !strings.Contains(got.Because, c.because) || got.Report != c.now.ID {
			t.Errorf("%s: got %s because %q (report %q), want %s because %q", c.name, got.Outcome, got.Because, got.Report, c.want, c.because)
		}
	}
	got := playbooks.CheckRecovery(found(a, b), well(playbooks.Healthy, "a", "b")).Facts
	want := []playbooks.FactAgain{{Fact: "redis.a", Unit: probes.Ratio, Then: 0.9, Now: 0.1}, {Fact: "redis.b", Unit: probes.Ratio, Then: 0.9, Unknown: true}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("facts: got %+v, want %+v", got, want)
	}
}
