package playbooks

import (
	"slices"
	"strings"

	"github.com/regpath/diagnose/probes"
)

// Recovered says what a second look, after the alert has resolved, means for what
// the first one found.
type Recovered string

// The outcomes of a recovery check. An alert that has resolved proves nothing: it
// may have been silenced, or its threshold missed by a hair.
const (
	// RecoveredYes: every root cause is refuted now, and no other was found.
	RecoveredYes Recovered = "recovered"
	// RecoveredNo: a root cause is still there, or another one is.
	RecoveredNo Recovered = "not-recovered"
	// RecoveredUnknown: what decides could not be measured, or nothing had been
	// found that could be compared.
	RecoveredUnknown Recovered = "unknown"
)

// Recovery is the outcome of a recovery check.
type Recovery struct {
	Outcome Recovered `json:"outcome"`
	// Because is one sentence for a human.
	Because string `json:"because"`
	// Facts are what named the root causes, then and now, in the report's order.
	Facts []FactAgain `json:"facts,omitempty"`
	// Report is the id of the second look.
	Report string `json:"report"`
}

// FactAgain is a fact that named a cause, measured again.
type FactAgain struct {
	Fact string      `json:"fact"`
	Unit probes.Unit `json:"unit"`
	Then float64     `json:"then"`
	// Now is meaningless when Unknown is set: the fact could not be measured.
	Now     float64 `json:"now"`
	Unknown bool    `json:"unknown,omitempty"`
}

// CheckRecovery compares what an incident's report found with a second report by
// the same playbook. It is pure.
func CheckRecovery(then, now Report) Recovery {
	r := Recovery{Report: now.ID, Facts: factsAgain(then, now)}
	var still, other, open []string
	for _, c := range then.Causes {
		if c.Role != Root {
			continue
		}
		switch {
		case hasCause(now, c.ID):
			still = append(still, c.Title)
		case !slices.ContainsFunc(now.RuledOut, func(o RuledOut) bool { return o.ID == c.ID }):
			open = append(open, c.Title)
		}
	}
	for _, c := range now.Causes {
		if c.Role == Root && now.Verdict == CauseFound && !hasCause(then, c.ID) {
			other = append(other, c.Title)
		}
	}
	list := func(titles []string) string { return strings.Join(titles, "; ") }
	switch {
	case len(still) > 0:
		r.Outcome, r.Because = RecoveredNo, "the cause is still there: "+list(still)
	case len(other) > 0:
		r.Outcome, r.Because = RecoveredNo, "another cause was found: "+list(other)
	case len(open) > 0:
		r.Outcome, r.Because = RecoveredUnknown, "what named the cause could not be measured again: "+list(open)
	case now.Verdict == Healthy:
		r.Outcome, r.Because = RecoveredYes, "every layer was measured again and is healthy"
	case then.Verdict == CauseFound:
		r.Outcome, r.Because = RecoveredYes, "what named the cause was measured again and is gone"
		if now.Verdict == Inconclusive {
			r.Because += "; whether all else is well could not be told"
		}
	default:
		r.Outcome, r.Because = RecoveredUnknown, "no cause had been found, and the second look is inconclusive"
	}
	return r
}

func hasCause(r Report, id string) bool {
	return slices.ContainsFunc(r.Causes, func(c Cause) bool { return c.ID == id })
}

// factsAgain looks the evidence of the roots up in the second report.
func factsAgain(then, now Report) []FactAgain {
	values := map[string]float64{}
	for _, f := range now.Findings {
		for _, fact := range f.Facts {
			values[f.Step+"."+fact.Name] = fact.Value
		}
	}
	var list []FactAgain
	seen := map[string]bool{}
	for _, c := range then.Causes {
		if c.Role != Root {
			continue
		}
		for _, o := range c.Evidence {
			if seen[o.Fact] {
				continue
			}
			seen[o.Fact] = true
			value, known := values[o.Fact]
			list = append(list, FactAgain{Fact: o.Fact, Unit: o.Unit, Then: o.Value, Now: value, Unknown: !known})
		}
	}
	return list
}
