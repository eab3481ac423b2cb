package playbooks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/regpath/diagnose/probes"
)

// summarize writes the sentence that opens the report.
func summarize(p *Playbook, s *sights, r Report, c *court) string {
	switch r.Verdict {
	case CauseFound:
		return sentences(rootSentences(c.roots(), s), unexplained(p, r, c), blindness(p, s, nil), remarks(p, s))
	case Healthy:
		return healthy(r, c)
	case Inconclusive:
	}
	_, said := silent(p, s, r)
	return sentences(opening(p, s, r, c), doubts(c), blindness(p, s, said), openFindings(p, s, r), leftOpen(s, c), remarks(p, s))
}

// lifeless says which vital signs are absent, and which are not known.
func lifeless(p *Playbook, s *sights) (absent, unknown []string) {
	for _, v := range p.Healthy {
		switch v.holds(s) {
		case yes:
		case no:
			absent = append(absent, full(v.Words.fill(s)))
		case open:
			unknown = append(unknown, "Whether all is well cannot be told: "+unknownList(s.unknownAmong([]*Condition{v.Condition})))
		}
	}
	return absent, unknown
}

// remarks says what more the playbook has to say.
func remarks(p *Playbook, s *sights) string {
	var parts []string
	for _, m := range p.Remarks {
		if m.holds(s) == yes {
			if text := m.Words.fill(s); text != "" {
				parts = append(parts, full(text))
			}
		}
	}
	return strings.Join(parts, " ")
}

// opening begins an inconclusive summary. Its first sentence stands where nothing
// but one line is shown: it says what is wrong.
func opening(p *Playbook, s *sights, r Report, c *court) string {
	if silence, steps := silent(p, s, r); silence != "" {
		blind := "could not be measured"
		if slices.ContainsFunc(p.Steps, func(step *Step) bool {
			return slices.Contains(steps, step.Title) && s.steps[p.index[step.ID]].blind == ""
		}) {
			blind = "could not be measured, or not in full"
		}
		return sentences(fmt.Sprintf("%s: %s %s.", upperFirst(silence), joinWords(steps), blind), sick(r))
	}
	absent, unknown := lifeless(p, s)
	switch trouble := sick(r); {
	case trouble != "" && len(c.in(refuted)) == len(c.trials):
		return "Something is wrong, and no known cause fits: " + trouble
	case trouble != "":
		return "Something is wrong, and its cause cannot be told for certain: " + trouble
	case len(absent) > 0 && !slices.ContainsFunc(s.steps, func(v sight) bool { return v.blind != "" }):
		return strings.Join(absent, " ")
	case len(unknown) > 0 && !slices.ContainsFunc(r.Findings, amiss):
		return strings.Join(unknown, " ")
	}
	return "Nothing wrong was seen, but not everything could be looked at, so this is no all-clear."
}

// silent returns the reason for which more than one step saw nothing or not all,
// and their titles, if at least one of them saw nothing; the reason of the most.
func silent(p *Playbook, s *sights, r Report) (reason string, titles []string) {
	most := 1
	for _, v := range s.steps {
		if v.blind == "" {
			continue
		}
		for _, candidate := range probes.Reasons(v.blind) {
			var hit []string
			for i, step := range p.Steps {
				if slices.ContainsFunc(r.Gaps, func(g Gap) bool {
					return g.Step == step.ID && slices.Contains(probes.Reasons(g.Reason), candidate)
				}) {
					hit = append(hit, p.Steps[i].Title)
				}
			}
			if len(hit) > most {
				most, reason, titles = len(hit), candidate, hit
			}
		}
	}
	return strings.TrimRight(reason, "."), titles
}

func upperFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

// rootSentences joins what the roots say.
func rootSentences(roots []*trial, s *sights) string {
	var parts []string
	for i, t := range roots {
		sentence := full(upperFirst(t.h.Summary.fill(s)))
		if len(t.caveats) > 0 {
			sentence += fmt.Sprintf(" This is of %s confidence: %s.", t.confidence, strings.TrimRight(joinWords(t.caveats), "."))
		}
		if i > 0 {
			sentence = "Independently: " + sentence
		}
		parts = append(parts, sentence)
	}
	return strings.Join(parts, " ")
}

// unexplained names the sick steps that no matched cause accounts for.
func unexplained(p *Playbook, r Report, c *court) string {
	accounted := map[string]bool{}
	for _, t := range c.in(matched) {
		accounted[t.h.Layer] = true
		for _, step := range t.h.Affects {
			accounted[step] = true
		}
	}
	var parts []string
	for i, f := range r.Findings {
		if f.Status > OK && !accounted[p.Steps[i].ID] {
			parts = append(parts, fmt.Sprintf("Not explained by this: %s, %s: %s", f.Title, f.Status, full(f.Summary)))
		}
	}
	return strings.Join(parts, " ")
}

// blindness names the steps that were not measured, but for those of which it
// was said.
func blindness(p *Playbook, s *sights, said []string) string {
	var reasons []string
	titles := map[string][]string{}
	for i, v := range s.steps {
		if v.blind == "" || slices.Contains(said, p.Steps[i].Title) {
			continue
		}
		reason := strings.TrimRight(v.blind, ".")
		reasons = appendNew(reasons, reason)
		titles[reason] = append(titles[reason], p.Steps[i].Title)
	}
	parts := make([]string, len(reasons))
	for i, reason := range reasons {
		parts[i] = fmt.Sprintf("%s could not be measured (%s).", joinWords(titles[reason]), reason)
	}
	return strings.Join(parts, " ")
}

// sick says what is wrong, the worst first.
func sick(r Report) string {
	var parts []string
	for _, status := range []Status{Critical, Warning} {
		for _, f := range r.Findings {
			if f.Status == status {
				parts = append(parts, fmt.Sprintf("%s, %s: %s", f.Title, status, full(f.Summary)))
			}
		}
	}
	return strings.Join(parts, " ")
}

// doubts says which matched causes may only be consequences.
func doubts(c *court) string {
	var parts []string
	for _, t := range c.ranked() {
		if !t.inDoubt() {
			continue
		}
		ids := make([]string, len(t.doubters))
		for i, d := range t.doubters {
			ids[i] = d.h.ID
		}
		parts = append(parts, fmt.Sprintf("It looks like %s, but whether %s is behind that cannot be told.", t.h.ID, strings.Join(ids, " or ")))
	}
	return strings.Join(parts, " ")
}

// openFindings names the steps that were measured and still not judged.
func openFindings(p *Playbook, s *sights, r Report) string {
	var parts []string
	for i, f := range r.Findings {
		if f.Status == Unknown && !f.NotLookedAt && s.steps[i].blind == "" {
			parts = append(parts, fmt.Sprintf("%s could not be judged: %s", p.Steps[i].Title, f.Summary))
		}
	}
	return strings.Join(parts, " ")
}

// leftOpen names the causes that could not be decided although every step was
// measured; a step that is blind says as much already.
func leftOpen(s *sights, c *court) string {
	if slices.ContainsFunc(s.steps, func(v sight) bool { return v.blind != "" }) {
		return ""
	}
	var ids []string
	for _, t := range c.in(undecided) {
		ids = append(ids, t.h.ID)
	}
	if len(ids) == 0 {
		return ""
	}
	return "Neither shown nor ruled out: " + joinWords(ids) + "."
}

func healthy(r Report, c *court) string {
	var looked, others, ids []string
	for _, f := range r.Findings {
		if f.NotLookedAt {
			others = append(others, f.Title)
		} else {
			looked = append(looked, f.Title)
		}
	}
	for _, t := range c.in(unjudged) {
		ids = append(ids, t.h.ID)
	}
	verb := "are"
	if len(looked) == 1 {
		verb = "is"
	}
	text := "Nothing is wrong: " + joinWords(looked) + " " + verb + " within bounds, and every known cause is ruled out"
	if len(ids) > 0 {
		text += " but for " + joinWords(ids) + ", which cannot be judged by what is to be had here"
	}
	if len(others) > 0 {
		text += ". Not looked at: " + joinWords(others)
	}
	return text + "."
}

// full ends a sentence.
func full(sentence string) string {
	if strings.HasSuffix(sentence, ".") || strings.HasSuffix(sentence, "!") || strings.HasSuffix(sentence, "?") {
		return sentence
	}
	return sentence + "."
}

func sentences(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// stepOf returns the step of a full fact name.
func stepOf(fact string) string {
	step, _, _ := strings.Cut(fact, ".")
	return step
}

func joinCommas(words []string) string { return strings.Join(words, ", ") }

// joinWords joins words as a human does: "a", "a and b", "a, b and c".
func joinWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return joinCommas(words[:last]) + " and " + words[last]
}
