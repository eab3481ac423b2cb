package notify

import (
	"strings"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// Limits on what came from outside, in runes, for every sink.
const (
	titleRunes = 200  // titles of incidents, causes, steps
	keyRunes   = 120  // keys of rows, sources, fact names
	textRunes  = 1000 // sentences, conditions, errors
)

// unnamed stands for an incident without a title.
const unnamed = "unnamed incident"

// Headline says a notice in one harmless line: what is being looked into, or
// the cause, or that all is well, or that it cannot be told; and after the
// alert has resolved how long it took, with the cause kept.
func Headline(n Notice) string {
	title := orElse(Line(n.Incident.Title, titleRunes), unnamed)
	switch n.Phase {
	case Looking:
		return "Looking into " + title
	case Reported:
		if n.Report != nil {
			return Conclusion(*n.Report)
		}
		return title
	case Resolved:
		what := title
		if n.Report != nil && n.Report.Verdict == playbooks.CauseFound {
			what = Conclusion(*n.Report)
		}
		if d, ok := Lasted(n.Incident); ok {
			return "Resolved after " + Duration(d) + ": " + what
		}
		return "Resolved: " + what
	}
	return title
}

// Conclusion says in one harmless line what a report found: the root cause in
// plain words with its confidence, "Healthy: …" or "Cannot tell: …".
func Conclusion(r playbooks.Report) string {
	summary := firstSentence(Line(r.Summary, titleRunes))
	switch {
	case r.Verdict == playbooks.CauseFound && len(r.Causes) > 0:
		return causeLine(r.Causes[0])
	case r.Verdict == playbooks.Healthy:
		return "Healthy: " + orElse(summary, "no fault found")
	}
	return "Cannot tell: " + orElse(summary, "the evidence does not suffice")
}

// Lasted returns how long an incident went on; false while it is open, or when
// its times make no sense.
func Lasted(in playbooks.Incident) (time.Duration, bool) {
	if in.StartedAt.IsZero() || in.ResolvedAt.IsZero() {
		return 0, false
	}
	d := in.ResolvedAt.Sub(in.StartedAt)
	return d, d >= 0
}

func causeLine(c playbooks.Cause) string {
	s := orElse(Line(c.Title, titleRunes), orElse(Line(c.ID, keyRunes), "unnamed cause"))
	if c.Confidence != "" {
		s += " (" + Line(string(c.Confidence), keyRunes) + " confidence)"
	}
	return s
}

// firstSentence returns s up to its first full stop that ends a sentence,
// without it.
func firstSentence(s string) string {
	first, _, _ := strings.Cut(s, ". ")
	return strings.TrimSuffix(first, ".")
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
