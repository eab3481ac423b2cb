package name

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Options are what an operator may decide about names. The zero value is the
// default.
type Options struct {
	// Scripts are the scripts whose letters are allowed, as Unicode names them;
	// nil means Latin and Han. Names registered under a wider list stay what
	// they are when it is narrowed, but nobody can ask for them any more.
	Scripts []string
	// Punctuation are the marks allowed beside letters and digits, of ASCII;
	// empty means "_.-".
	Punctuation string
	// AllowMixed allows letters of scripts that do not belong together in one
	// name. Without it Latin may go with Han, and both with Hiragana and
	// Katakana, with Bopomofo or with Hangul, as in ordinary Chinese, Japanese
	// and Korean, and nothing else may: the level "highly restrictive" of
	// UTS #39, section 5.2.
	AllowMixed bool
	// AllowConfusable allows names that look like a plain one but are not, such
	// as admın with a dotless i.
	AllowConfusable bool
}

// Policy decides which names there can be, and how each is spelt. It is
// immutable and safe for concurrent use.
type Policy struct {
	scripts           []script
	latin             bool // ASCII letters are allowed
	punctuation       string
	mixed, confusable bool   // are allowed
	list              string // of what is allowed, for errors
}

type script struct {
	name  string
	table *unicode.RangeTable
}

// The default allow-list.
const defaultPunctuation = "_.-"

func standard() Policy {
	return Policy{
		scripts:     []script{{"Latin", unicode.Latin}, {"Han", unicode.Han}},
		latin:       true,
		punctuation: defaultPunctuation,
		list:        "letters of Latin, Han, digits 0-9 and " + defaultPunctuation,
	}
}

// Default returns the policy of the zero Options.
func Default() *Policy {
	p := standard()
	return &p
}

// NewPolicy returns the policy for the options, or an error that says which of
// them cannot be.
func NewPolicy(o Options) (*Policy, error) {
	p := standard()
	p.mixed, p.confusable = o.AllowMixed, o.AllowConfusable
	if o.Scripts != nil {
		p.scripts, p.latin = nil, false
		for _, s := range o.Scripts {
			table, known := unicode.Scripts[s]
			switch {
			case s == "Common" || s == "Inherited":
				return nil, fmt.Errorf("name policy: %s is what no script has to itself and cannot be allowed", s)
			case !known:
				return nil, fmt.Errorf("name policy: no script is called %q; Unicode's names begin with a capital, as in Latin", s)
			}
			p.scripts = append(p.scripts, script{s, table})
			p.latin = p.latin || s == "Latin"
		}
		if len(p.scripts) == 0 {
			return nil, errors.New("name policy: a list of no scripts allows no letters")
		}
	}
	if o.Punctuation != "" {
		for _, r := range o.Punctuation {
			if r <= ' ' || r >= 0x7f || unicode.IsLetter(r) || unicode.IsDigit(r) {
				return nil, fmt.Errorf("name policy: U+%04X is no punctuation of ASCII", r)
			}
		}
		p.punctuation = o.Punctuation
	}
	names := make([]string, 0, len(p.scripts))
	for _, s := range p.scripts {
		names = append(names, s.name)
	}
	p.list = fmt.Sprintf("letters of %s, digits 0-9 and %s", strings.Join(names, ", "), p.punctuation)
	return &p, nil
}

// Canonical returns the canonical form of raw under the policy; see the
// function of the same name. Names that are reserved for tests are names under
// every policy, so that a filter can be tested whatever its users are called.
func (p *Policy) Canonical(raw string) (string, error) {
	if len(raw) > maxRaw {
		return "", fmt.Errorf("%w: %d bytes, at most %d characters and %d bytes are allowed", ErrLong, len(raw), MaxRunes, MaxBytes)
	}
	if (p.latin || strings.HasPrefix(raw, ReservedPrefix)) && canonicalASCII(raw, p.punctuation) {
		return raw, nil
	}
	if !utf8.ValidString(raw) {
		return "", ErrEncoding
	}
	s := strings.ToLower(norm.NFKC.String(strings.TrimSpace(raw)))
	if err := p.allowed(s); err != nil {
		return "", err
	}
	return s, nil
}

// Registrable returns the canonical form of raw under the policy if a user may
// own it; see the function of the same name.
func (p *Policy) Registrable(raw string) (string, error) {
	return unreserved(p.Canonical(raw))
}

func unreserved(s string, err error) (string, error) {
	if err == nil && strings.HasPrefix(s, ReservedPrefix) {
		return "", fmt.Errorf("%w: names that begin with %s are kept for tests", ErrReserved, ReservedPrefix)
	}
	return s, err
}

// canonicalASCII says whether s is its own canonical form by a look at its
// bytes alone, which nearly every name asked for is.
func canonicalASCII(s, punctuation string) bool {
	if len(s) < MinRunes || len(s) > MaxRunes {
		return false
	}
	solid := false
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			solid = true
		case strings.IndexByte(punctuation, c) >= 0:
		default:
			return false
		}
	}
	return solid
}

// allowed checks a normalised name against the rules, character by character,
// then as a whole.
func (p *Policy) allowed(s string) error {
	runes, solid := 0, false
	var used []string
	for _, r := range s {
		runes++
		at := p.scriptOf(r)
		switch {
		case '0' <= r && r <= '9':
			solid = true
		case strings.ContainsRune(p.punctuation, r):
		case at == "":
			return fmt.Errorf("%w: U+%04X (%s) is character %d; allowed are %s", ErrCharacter, r, class(r), runes, p.list)
		default:
			solid = true
			if !slices.Contains(used, at) {
				used = append(used, at)
			}
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
	case !p.mixed && !together(used):
		r, position := p.first(s, used[1])
		return fmt.Errorf("%w: U+%04X (%s) is character %d, after letters of the %s script",
			ErrMixed, r, class(r), position, used[0])
	}
	if p.confusable {
		return nil
	}
	if plain, position, r := mistakable(s); plain != "" {
		return fmt.Errorf("%w: U+%04X (%s) is character %d and makes the name look like %q", ErrConfusable, r, class(r), position, plain)
	}
	return nil
}

// scriptOf names the allowed script that r is a visible letter of, or "". Some
// letters, such as the fillers of Hangul, cannot be seen.
func (p *Policy) scriptOf(r rune) string {
	if !unicode.IsLetter(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
		return ""
	}
	for _, s := range p.scripts {
		if unicode.Is(s.table, r) {
			return s.name
		}
	}
	return ""
}

// first finds the first letter of the script in s, and its position from 1.
func (p *Policy) first(s, script string) (r rune, position int) {
	for _, r := range s {
		position++
		if p.scriptOf(r) == script {
			return r, position
		}
	}
	return utf8.RuneError, 0
}

// together says whether the scripts may meet in one name.
func together(used []string) bool {
	if len(used) < 2 {
		return true
	}
	for _, family := range [][]string{
		{"Latin", "Han", "Hiragana", "Katakana"},
		{"Latin", "Han", "Bopomofo"},
		{"Latin", "Han", "Hangul"},
	} {
		if !slices.ContainsFunc(used, func(s string) bool { return !slices.Contains(family, s) }) {
			return true
		}
	}
	return false
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
		for name, table := range unicode.Scripts {
			if unicode.Is(table, r) {
				return name + " letter"
			}
		}
		return "letter"
	case unicode.IsDigit(r):
		return "digit that is not ASCII"
	}
	return "symbol or punctuation"
}
