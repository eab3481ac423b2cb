package webhook

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// clip cuts s to at most n bytes, between runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// storable makes untrusted text fit for a column of text, of at most n bytes:
// Postgres takes neither NUL nor what is not UTF-8.
func storable(s string, n int) string {
	return strings.ToValidUTF8(strings.ReplaceAll(clip(s, n), "\x00", ""), "")
}

// loggable makes untrusted text fit for a log line or an answer: bounded to n
// bytes, quoted, without control or invisible characters.
func loggable(s string, n int) string {
	if len(s) > n {
		return strconv.Quote(clip(s, n)) + "…"
	}
	return strconv.Quote(s)
}
