package errlog

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/regpath/diagnose/probes/source"
)

// minTie is the shortest text that ties an error to a change: shorter ones are
// found in any message.
const minTie = 4

// ofBehaviour reports whether a change of this kind alters what the code does.
// One of size or of data rarely brings errors of a new kind.
func ofBehaviour(kind string) bool { return kind != "scale" && kind != "data" }

// tiedTo reports whether errors name what a change has changed.
func tiedTo(k *kind, c source.Change) bool {
	return slices.ContainsFunc(ties(c), func(tie string) bool {
		return slices.ContainsFunc(k.samples, func(text string) bool { return hasWord(text, tie) })
	})
}

// ties returns what errors that come of a change may name, in lower case: its
// key, and the value it was changed to or, if that is a URL, its host.
func ties(c source.Change) []string {
	value := clip(c.To, maxMessage)
	candidates := []string{clip(c.What, maxMessage), value}
	if u, err := url.Parse(value); err == nil && u.Host != "" {
		candidates[1] = u.Host
	}
	if host, _, err := net.SplitHostPort(candidates[1]); err == nil && net.ParseIP(host) == nil && host != "localhost" {
		candidates = append(candidates, host)
	}
	ties := candidates[:0]
	for _, s := range candidates {
		if s = strings.ToLower(strings.TrimSpace(s)); len(s) >= minTie && !ordinary(s) {
			ties = append(ties, s)
		}
	}
	return ties
}

// ordinary reports whether a value is one that many settings have, so that an
// error that holds it need not mean this one.
func ordinary(value string) bool {
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return true
	}
	if _, err := time.ParseDuration(value); err == nil {
		return true
	}
	return slices.Contains([]string{"true", "false", "none", "null", "auto", "default", "enabled", "disabled", "error", "debug", "info", "warn"}, value)
}

// hasWord reports whether text holds word, and not as a part of a longer one.
func hasWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if !inWord(before) && !inWord(after) {
			return true
		}
		from = end
	}
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
}
