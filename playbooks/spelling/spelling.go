// Package spelling finds the word that a misspelt one was meant to be.
package spelling

import (
	"fmt"
	"strings"
)

// DidYouMean is the end of an error about a word which is not known: it suggests the
// known word that is nearest, if one is near.
func DidYouMean(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest returns the candidate that is the fewest edits away from word, or ""
// if none is near enough to have been meant. The beginning of a candidate is
// one edit away.
func Nearest(word string, candidates []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		d := distance(word, c)
		if len(word) > 2 && strings.HasPrefix(c, word) {
			d = min(d, 1)
		}
		if d < least || (d == least && best != "" && c < best) {
			best, least = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes, enough for names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
