// Package name holds the one canonical form of a username. Every path of the
// checker, the query path, the write path and the canary test, passes names
// through Canonical first, so that no two layers can disagree about whether two
// spellings are one name.
package name

import "errors"

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
	// ErrMixed and ErrConfusable are matters of policy; see [Options].
	ErrMixed      = errors.New("name mixes scripts that do not belong together")
	ErrConfusable = errors.New("name looks like another")
)

// Canonical returns the canonical form of raw under the default policy: NFKC,
// then lower case, without surrounding space. The order matters: lower(NFKC(x))
// is idempotent for every code point, NFKC(lower(x)) is not for 629 of them.
// Allowed are letters of the Latin and Han scripts, ASCII digits and "_", ".",
// "-"; at least one letter or digit is required, and no name may look like a
// plain one that it is not. Errors say which character is to blame, by its
// number, its kind and its position in the canonical form, and never show it.
func Canonical(raw string) (string, error) {
	if canonicalASCII(raw, defaultPunctuation) {
		return raw, nil
	}
	p := standard()
	return p.Canonical(raw)
}

// Registrable returns the canonical form of raw if a user may own it: as
// Canonical, and not reserved.
func Registrable(raw string) (string, error) {
	return unreserved(Canonical(raw))
}
