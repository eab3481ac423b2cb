package slack

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/regpath/diagnose/notify"
)

// escapeRune returns r as Slack wants it in any text object and in the text
// fallback: & < > as entities and nothing else, once.
func escapeRune(r rune) string {
	switch r {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	}
	return string(r)
}

// units counts characters as strictly as Slack may do.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// fit escapes as much of s as fits into limit units and returns it with the rest
// of s. It cuts neither a rune nor an entity in two.
func fit(s string, limit int) (escaped, rest string) {
	var b strings.Builder
	used := 0
	for i, r := range s {
		e := escapeRune(r)
		n := units(e)
		if used+n > limit {
			return b.String(), s[i:]
		}
		b.WriteString(e)
		used += n
	}
	return b.String(), ""
}

// clip escapes s into at most limit units, ending in "…" if something was cut, where
// [notify.Border] cuts.
func clip(s string, limit int) string {
	e, rest := fit(s, limit)
	if rest == "" {
		return e
	}
	if limit <= 0 {
		return ""
	}
	_, rest = fit(s, limit-1)
	e, _ = fit(s[:notify.Border(s, len(s)-len(rest))], limit-1)
	return e + "…"
}

const (
	fence     = "```\n"
	fenceEnd  = "\n```"
	fenceCost = len(fence) + len(fenceEnd)
)

// defuse makes s harmless inside a code block: three backticks would end it.
func defuse(s string) string { return strings.ReplaceAll(s, "```", "'''") }

// clipLines joins lines into at most limit units of escaped text. When not all
// of them fit it ends in a line that says how many are missing.
func clipLines(lines []string, limit int) string {
	whole := strings.Join(lines, "\n")
	if e, rest := fit(whole, limit); rest == "" {
		return e
	}
	var b strings.Builder
	used := 0
	for i, l := range lines {
		more := "… and " + strconv.Itoa(len(lines)-i) + " more"
		e, _ := fit(l, limit)
		if used+units(e)+1+units(more)+2 > limit {
			if i == 0 { // a single giant line is better cut than left out
				return clip(l, limit)
			}
			return b.String() + more
		}
		b.WriteString(e + "\n")
		used += units(e) + 1
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// link returns a Slack link to raw that shows its host, or "" unless raw is a
// usable http or https URL of bearable length. Characters that would end the
// link are percent-encoded.
func link(label, raw string) string {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
		notify.Line(u.Host, 100) != u.Host {
		return ""
	}
	encoded := strings.NewReplacer("<", "%3C", ">", "%3E", "|", "%7C", "&", "&amp;", "`", "%60", " ", "%20").Replace(u.String())
	if notify.Line(encoded, maxURL+1) != encoded || units(encoded) > maxURL {
		return ""
	}
	host := strings.ReplaceAll(u.Host, "|", "")
	return "<" + encoded + "|" + clip(label+" ("+host+")", 200) + ">"
}
