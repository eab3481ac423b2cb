// Package name holds the one canonical form of a username. Every path of the
// checker, the query path, the write path and the canary test, passes names
// through Canonical first, so that no two layers can disagree about whether two
// spellings are one name.
package name

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of a canonical name.
const (
	MinRunes = 3
	MaxRunes = 32
	MaxBytes = 64
)

// maxRaw bounds the work spent on a name before it is known to be sane. It is
// twice what MaxRunes runes of four bytes need, and NFKC expands a rune at most
// eighteenfold.
const maxRaw = 256

// ReservedPrefix begins the names set aside for canaries. Registration refuses
// them, so they can never exist.
const ReservedPrefix = "zz0canary"

// What can be wrong with a name. The errors that Canonical and Registrable
// return wrap one of these and add the detail.
var (
	ErrEncoding  = errors.New("name is not valid UTF-8")
	ErrShort     = errors.New("name is too short")
	ErrLong      = errors.New("name is too long")
	ErrCharacter = errors.New("name holds a character that is not allowed")
	ErrReserved  = errors.New("name is reserved")
)

// Canonical returns the canonical form of raw: NFKC, then lower case, without
// surrounding space. The order matters: lower(NFKC(x)) is idempotent for every
// code point, NFKC(lower(x)) is not for 629 of them. Allowed are letters of the
// Latin and Han scripts, ASCII digits and "_", ".", "-"; at least one letter or
// digit is required. Errors name the offending code point by number, never by
// the character itself.
func Canonical(raw string) (string, error) {
	if len(raw) > maxRaw {
		return "", fmt.Errorf("%w: %d bytes, at most %d runes and %d bytes are allowed", ErrLong, len(raw), MaxRunes, MaxBytes)
	}
	if canonicalASCII(raw) {
		return raw, nil
	}
	if !utf8.ValidString(raw) {
		return "", ErrEncoding
	}
	s := strings.ToLower(norm.NFKC.String(strings.TrimSpace(raw)))
	if err := allowed(s); err != nil {
		return "", err
	}
	return s, nil
}

// Registrable returns the canonical form of raw if a user may own it: as
// Canonical, and not reserved.
func Registrable(raw string) (string, error) {
	s, err := Canonical(raw)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(s, ReservedPrefix) {
		return "", fmt.Errorf("%w: names that begin with %s are kept for tests", ErrReserved, ReservedPrefix)
	}
	return s, nil
}

// canonicalASCII says whether s is its own canonical form by a look at its
// bytes alone, which nearly every name asked for is.
func canonicalASCII(s string) bool {
	if len(s) < MinRunes || len(s) > MaxRunes {
		return false
	}
	solid := false
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			solid = true
		case c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return solid
}

// allowed checks a normalised name against the rules.
func allowed(s string) error {
	runes, solid := 0, false
	for _, r := range s {
		runes++
		switch {
		case r == '_', r == '.', r == '-':
		case '0' <= r && r <= '9', unicode.IsLetter(r) && unicode.In(r, unicode.Latin, unicode.Han):
			solid = true
		default:
			return fmt.Errorf("%w: U+%04X (%s)", ErrCharacter, r, class(r))
		}
	}
	switch {
	case runes < MinRunes:
		return fmt.Errorf("%w: %d characters, at least %d are needed", ErrShort, runes, MinRunes)
	case runes > MaxRunes:
		return fmt.Errorf("%w: %d characters, at most %d are allowed", ErrLong, runes, MaxRunes)
	case len(s) > MaxBytes:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrLong, len(s), MaxBytes)
	case !solid:
		return fmt.Errorf("%w: punctuation only, a letter or digit is needed", ErrCharacter)
	}
	return nil
}

// class says in words what kind of character r is.
func class(r rune) string {
	switch {
	case unicode.Is(unicode.Cc, r):
		return "control character"
	case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return "invisible character"
	case unicode.Is(unicode.M, r):
		return "combining mark"
	case unicode.IsSpace(r):
		return "space"
	case unicode.IsLetter(r):
		return "letter of a script that is not allowed"
	case unicode.IsDigit(r):
		return "digit that is not ASCII"
	}
	return "symbol or punctuation"
}
