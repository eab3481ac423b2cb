package playbooks

import (
	"fmt"
	"slices"
	"strings"
)

// summarize writes the sentence that opens the report.
func summarize(p *Playbook, s *sights, r Report, c *court) string {
	switch r.Verdict {
	case CauseFound:
		return sentences(rootSentences(c.roots(), s), unexplained(p, r, c), blindness(p, s))
	case Healthy:
		return healthy(r)
	case Inconclusive:
	}
	return sentences(sick(r, c), doubts(c), blindness(p, s), openFindings(p, s, r), leftOpen(s, c))
}

// rootSentences joins what the roots say.
func rootSentences(roots []*trial, s *sights) string {
	var parts []string
	for i, t := range roots {
		sentence := full(t.h.Summary.fill(s))
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

// blindness names the steps that were not measured.
func blindness(p *Playbook, s *sights) string {
	var parts []string
	for i, v := range s.steps {
		if v.blind != "" {
			parts = append(parts, fmt.Sprintf("%s could not be measured (%s).", p.Steps[i].Title, strings.TrimRight(v.blind, ".")))
		}
	}
	return strings.Join(parts, " ")
}

// sick opens an inconclusive summary with what is wrong, the worst first.
func sick(r Report, c *court) string {
	var parts []string
	for _, status := range []Status{Critical, Warning} {
		for _, f := range r.Findings {
			if f.Status == status {
				parts = append(parts, fmt.Sprintf("%s, %s: %s", f.Title, status, full(f.Summary)))
			}
		}
	}
	if len(parts) == 0 {
		return "Nothing wrong was seen, but not everything could be looked at, so this is no all-clear."
	}
	opening := "Something is wrong, and its cause cannot be told for certain."
	if len(c.in(refuted)) == len(c.trials) {
		opening = "Something is wrong, and no known cause fits."
	}
	return opening + " " + strings.Join(parts, " ")
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
		if f.Status == Unknown && s.steps[i].blind == "" {
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

func healthy(r Report) string {
	titles := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		titles[i] = f.Title
	}
	return "Nothing is wrong: " + joinWords(titles) + " are within bounds, and every known cause is ruled out."
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
