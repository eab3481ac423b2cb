package notify

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Line makes s, which may come from an attacker, one harmless line of at most
// limit runes. White space of any kind becomes single spaces. Characters that a
// reader cannot see or that act on a terminal (controls, ANSI escapes,
// bidirectional overrides, zero-width characters) are not dropped but spelt
// out, as \x1b or \u200b: whoever reads a report must be able to tell "love"
// from a name that only looks like it. What is too long ends in "…".
//
// Line knows nothing of markup: a sink escapes for itself, afterwards.
func Line(s string, limit int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = n > 0
			continue
		}
		if n > limit { // enough to know that it must be cut
			break
		}
		if space {
			b.WriteByte(' ')
			n++
			space = false
		}
		before := b.Len()
		if visible(r) {
			b.WriteRune(r)
			n++
		} else {
			spell(&b, r)
			n += b.Len() - before
		}
	}
	return Truncate(b.String(), limit)
}

// visible reports whether r can be shown as it is.
func visible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// spell writes the Go escape of r, without quotes.
func spell(b *strings.Builder, r rune) {
	q := strconv.QuoteRuneToASCII(r)
	b.WriteString(q[1 : len(q)-1])
}

// cells returns how many columns of a terminal s takes.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// runeCells is 0 for combining marks, 2 for the wide characters of East Asia.
func runeCells(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// pad fills s with spaces up to the given number of cells.
func pad(s string, to int) string {
	if d := to - cells(s); d > 0 {
		return s + strings.Repeat(" ", d)
	}
	return s
}

// wrap breaks a line at spaces into lines of at most max cells, and inside a
// word only where the word alone is longer. It loses nothing but the spaces it
// breaks at.
func wrap(s string, limit int) []string {
	limit = max(limit, 2) // a wide rune must fit
	var lines []string
	var line strings.Builder
	used := 0
	flush := func() {
		lines = append(lines, line.String())
		line.Reset()
		used = 0
	}
	for word := range strings.FieldsSeq(s) {
		w := cells(word)
		if line.Len() > 0 && used+1+w <= limit {
			line.WriteString(" " + word)
			used += 1 + w
			continue
		}
		if line.Len() > 0 {
			flush()
		}
		for _, r := range word {
			c := runeCells(r)
			if used+c > limit {
				flush()
			}
			line.WriteRune(r)
			used += c
		}
	}
	if line.Len() > 0 || len(lines) == 0 { // a combining mark takes no cell
		flush()
	}
	return lines
}
