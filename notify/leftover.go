package notify

import (
	"strings"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// What was not seen and what it is not: the end of a report, of little use to
// whoever is woken by it, so a digest folds it to a line each.

// lineRunes is about one line of a terminal.
const lineRunes = 92

// gaps lists what could not be looked at. A digest says a reason once for all the
// steps that it holds for, and what has no effect in one line.
func gaps(list []playbooks.Gap, d Detail) []Item {
	if d == Full {
		items := make([]Item, 0, len(list))
		for _, g := range list {
			text := Line(g.Step, keyRunes) + ": " + orElse(Line(g.Reason, textRunes), "no reason given")
			if len(g.Facts) > 0 {
				text += " (unknown: " + Line(strings.Join(g.Facts, ", "), textRunes) + ")"
			}
			items = append(items, Item{Text: text})
		}
		return items
	}
	var reasons, idle []string
	steps := map[string][]string{}
	facts := map[string]int{}
	for _, g := range list {
		if g.NoEffect {
			if facts[g.Step] == 0 {
				idle = append(idle, g.Step)
			}
			facts[g.Step] += len(g.Facts)
			continue
		}
		for _, reason := range probes.Reasons(g.Reason) {
			if len(steps[reason]) == 0 {
				reasons = append(reasons, reason)
			}
			steps[reason] = append(steps[reason], g.Step)
		}
	}
	var items []Item
	for _, reason := range reasons {
		text := strings.Join(distinct(steps[reason]), ", ") + ": " + orElse(reason, "no reason given")
		items = append(items, Item{Text: Line(text, 2*lineRunes)})
	}
	if len(idle) > 0 {
		for i, step := range idle {
			idle[i] = Count(facts[step], "fact") + " of " + step
		}
		items = append(items, Item{Text: Line(strings.Join(idle, ", ")+" (no effect on what was found)", 2*lineRunes)})
	}
	return items
}

func distinct(words []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range words {
		if !seen[w] {
			out = append(out, w)
		}
		seen[w] = true
	}
	return out
}

// ruledOut lists the causes that were refuted, in a digest one line each.
func ruledOut(list []playbooks.RuledOut, d Detail) []Item {
	limit := textRunes
	if d == Digest {
		limit = lineRunes
	}
	items := make([]Item, 0, len(list))
	for _, r := range list {
		text := orElse(Line(r.Title, titleRunes), Line(r.ID, keyRunes))
		if because := Line(r.Because, textRunes); because != "" {
			text += ": " + because
		}
		items = append(items, Item{Text: Line(text, limit)})
		if condition := Line(r.Condition, textRunes); d == Full && condition != "" && r.Condition != r.Because {
			items = append(items, Item{Text: "condition: " + condition, Depth: 1})
		}
	}
	return items
}
