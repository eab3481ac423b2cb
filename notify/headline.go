package notify

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
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
// alert has resolved how long it took and whether the trouble is really over,
// with the cause kept.
func Headline(n Notice) string {
	title := orElse(Line(n.Incident.Title, titleRunes), unnamed)
	switch n.Phase {
	case Looking:
		return "Looking into " + title + Again(n.Incident)
	case Reported:
		if n.Report != nil {
			return Conclusion(*n.Report) + Again(n.Incident)
		}
		return title + Again(n.Incident)
	case Resolved:
		what := title
		if n.Report != nil && n.Report.Verdict == playbooks.CauseFound {
			what = Conclusion(*n.Report)
		}
		return ended(n) + ": " + what
	}
	return title
}

// ended says how an incident ended: "Recovered after 12 min".
func ended(n Notice) string {
	after := ""
	if d, ok := Lasted(n.Incident); ok {
		after = " after " + Duration(d)
	}
	over := "Resolved" + after
	if n.Incident.Stale {
		over = "Not heard of any more" + after
	}
	if n.Recovery == nil {
		return over
	}
	switch n.Recovery.Outcome {
	case playbooks.RecoveredYes:
		return "Recovered" + after
	case playbooks.RecoveredNo:
		return over + ", but NOT recovered"
	case playbooks.RecoveredUnknown:
	}
	return over + ", cannot tell whether it has recovered"
}

// Again says that the incident has fired before: ", again: 3rd time today".
// Empty the first time.
func Again(in playbooks.Incident) string {
	switch {
	case in.Episode < 2:
		return ""
	case in.EpisodesToday < 2:
		return ", again"
	}
	return ", again: " + ordinal(in.EpisodesToday) + " time today"
}

// ordinal writes 1st, 2nd, 3rd, 4th, 11th.
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// RecoveryLines says in a few harmless lines what the second look saw, the facts
// that had named the cause last. Empty where there was none.
func RecoveryLines(r *playbooks.Recovery) []string {
	if r == nil {
		return nil
	}
	lines := []string{"Measured again after the alert resolved: " + Line(r.Because, textRunes)}
	for _, f := range r.Facts {
		now := "not measured"
		if !f.Unknown {
			now = Value(f.Now, f.Unit)
		}
		lines = append(lines, Line(f.Fact, keyRunes)+": "+Value(f.Then, f.Unit)+" then, "+now+" now")
	}
	return lines
}

// Conclusion says in one harmless line what a report found: the root cause in
// plain words with its confidence, "Healthy: …" or "Cannot tell: …".
func Conclusion(r playbooks.Report) string {
	summary := Line(firstSentence(Line(r.Summary, textRunes)), titleRunes)
	switch {
	case r.Verdict == playbooks.CauseFound && len(r.Causes) > 0:
		return causeLine(r.Causes[0])
	case r.Verdict == playbooks.Healthy:
		return "Healthy: " + orElse(summary, "no fault found")
	}
	return "Cannot tell: " + orElse(lowerFirst(summary), "the evidence does not suffice")
}

// Changed says in one harmless line what was changed shortly before the run: it
// is the first thing that an on-call asks. Empty when nothing was, or when all is
// well.
func Changed(r playbooks.Report) string {
	if r.Verdict == playbooks.Healthy {
		return ""
	}
	var parts []string
	for _, f := range r.Findings {
		for _, row := range f.Rows {
			if row.Table != changesTable || row.Unknown || row.Value > recent.Seconds() || len(parts) == rowsInDigest {
				continue
			}
			s := orElse(Line(row.Key, keyRunes), "(unnamed)")
			if note := Line(row.Note, keyRunes); note != "" {
				s += " (" + note + ")"
			}
			parts = append(parts, s+", "+Value(row.Value, probes.Seconds)+" ago")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Changed just before: " + strings.Join(parts, "; ")
}

// changesTable has the changes of a service, with their age in seconds; those
// younger than recent are likely to matter.
const (
	changesTable = "changes"
	recent       = 10 * time.Minute
)

// lowerFirst makes a sentence the continuation of another, unless it begins with
// a name in capitals.
func lowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if second, _ := utf8.DecodeRuneInString(s[size:]); unicode.IsUpper(second) {
		return s
	}
	return string(unicode.ToLower(first)) + s[size:]
}

// upperFirst makes it a sentence of its own again.
func upperFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
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
