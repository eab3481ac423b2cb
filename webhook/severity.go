package webhook

import (
	"strings"
	"unicode"
)

// urgent reports whether a severity, as an alert spells it, is one of
// Options.Urgent.
func (o *Options) urgent(severity string) bool {
	for _, u := range o.Urgent {
		if plain(severity) == plain(u) {
			return severity != ""
		}
	}
	return false
}

// plain leaves of a severity what matters: "P-0 " is "p0".
func plain(severity string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, severity)
}

// severity returns the severity as the alerts spell it: an urgent one if any
// alert that fires has one, or "".
func (m *Message) severity(urgent func(string) bool) string {
	for _, a := range m.Alerts {
		if v := clip(a.Labels["severity"], 100); a.Firing && urgent(v) {
			return v
		}
	}
	return clip(m.label("severity"), 100)
}

// raise takes over the severity where the incident has none, or a lesser one. It
// reports whether the incident has become urgent.
func (in *incident) raise(severity string, urgent func(string) bool) bool {
	if in.severity != "" && (urgent(in.severity) || !urgent(severity)) {
		return false
	}
	in.severity = severity
	return urgent(severity)
}
