package notify

import (
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// ellipsis ends whatever was cut.
const ellipsis = "…"

// Truncate cuts s to at most limit runes, the last of which is "…" when something was
// cut: after a word where that loses little, and never inside what is read as one
// character. Bytes that are not UTF-8 count as one rune each.
func Truncate(s string, limit int) string {
	if limit <= 0 {
		return ""
	}
	n, cut := 0, 0
	for i := range s {
		if n == limit-1 {
			cut = i
		}
		n++
		if n > limit {
			return s[:Border(s, cut)] + ellipsis
		}
	}
	return s
}

// Border returns where to cut s for people so that at most limit bytes are left: after
// the space behind a word unless half would be lost by that, else between characters,
// as é of two runes is one. It is for sinks that count otherwise than [Truncate].
func Border(s string, limit int) int {
	if limit >= len(s) {
		return len(s)
	}
	end, word := 0, 0
	for rest, state := s, -1; rest != ""; {
		var character string
		character, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if end+len(character) > limit {
			break
		}
		end += len(character)
		if r, _ := utf8.DecodeRuneInString(character); unicode.IsSpace(r) {
			word = end
		}
	}
	switch {
	case 2*word > limit:
		return word
	case end > 0:
		return end
	}
	for end = limit; end > 0 && !utf8.RuneStart(s[end]); { // a heap of marks on one letter
		end--
	}
	return end
}
