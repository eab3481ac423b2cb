package webhook

import (
	"strings"
	"unicode"
)

// Severities returns a function that knows these severities, in any spelling of
// their letters and digits: "P0" is also " p-0". It does not know the empty one.
func Severities(names ...string) func(severity string) bool {
	known := map[string]bool{}
	for _, name := range names {
		known[plain(name)] = true
	}
	delete(known, "")
	return func(severity string) bool { return known[plain(severity)] }
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
		if v := storable(a.Labels["severity"], 100); a.Firing && urgent(v) {
			return v
		}
	}
	return storable(m.label("severity"), 100)
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
