package name_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/regpath/diagnose/reference/name"
)

func policy(tb testing.TB, o name.Options) *name.Policy {
	tb.Helper()
	p, err := name.NewPolicy(o)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// allScripts lists every script that can be allowed, the two with most letters first.
func allScripts() []string {
	scripts := slices.Sorted(maps.Keys(unicode.Scripts))
	return append([]string{"Han", "Hangul"}, slices.DeleteFunc(scripts, func(s string) bool {
		return s == "Common" || s == "Inherited" || s == "Han" || s == "Hangul"
	})...)
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	wide := []string{"Latin", "Han", "Cyrillic", "Greek", "Hiragana", "Katakana", "Hangul", "Hebrew"}
	ok := func(o name.Options, in, want string) {
		t.Helper()
		if got, err := policy(t, o).Canonical(in); err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	bad := func(o name.Options, in string, want error, text string) {
		t.Helper()
		if got, err := policy(t, o).Canonical(in); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("Canonical(%q) = %q, %v, want an error %q with %q", in, got, err, want, text)
		}
	}
	cyrillic := name.Options{Scripts: []string{"Cyrillic"}}
	ok(cyrillic, "Мама", "мама") // м is like no plain letter
	ok(cyrillic, "123", "123")
	bad(cyrillic, "mama", name.ErrCharacter, "U+006D (Latin letter) is character 1; allowed are letters of Cyrillic, digits")
	bad(cyrillic, "сос", name.ErrConfusable, `U+0441 (Cyrillic letter) is character 1 and makes the name look like "coc"`)
	bad(cyrillic, "1с.а", name.ErrConfusable, `is character 2 and makes the name look like "1c.a"`)

	mix := name.Options{Scripts: wide}
	bad(mix, "pаypal", name.ErrMixed, "U+0430 (Cyrillic letter) is character 2, after letters of the Latin script")
	bad(mix, "мир王", name.ErrMixed, "U+738B (Han letter) is character 4, after letters of the Cyrillic script")
	bad(mix, "かな한글", name.ErrMixed, "(Hangul letter)")
	bad(mix, "αβγlatin", name.ErrMixed, "U+006C (Latin letter) is character 4")
	ok(mix, "東京tokyoとカ", "東京tokyoとカ")
	ok(mix, "한글abc王", "한글abc王")
	ok(mix, "αβγ_12", "αβγ_12")
	bad(mix, "a\u3164bc", name.ErrCharacter, "U+1160 (invisible character)") // Hangul, a letter, and not to be seen
	bad(mix, "שלוֹם", name.ErrCharacter, "combining mark")

	loose := name.Options{Scripts: wide, AllowMixed: true}
	ok(loose, "pаypаlж", "pаypаlж")
	bad(loose, "pаypal", name.ErrConfusable, `"paypal"`)
	loose.AllowConfusable = true
	ok(loose, "pаypal", "pаypal")
	ok(name.Options{AllowConfusable: true}, "admın", "admın")

	marks := name.Options{Punctuation: "+"}
	ok(marks, "a+b", "a+b")
	ok(marks, "é+b", "é+b")
	bad(marks, "a_b", name.ErrCharacter, "U+005F (symbol or punctuation) is character 2; allowed are letters of Latin, Han, digits 0-9 and +")
	bad(marks, "+++", name.ErrCharacter, "punctuation only")
	if _, err := policy(t, mix).Registrable("zz0canary"); !errors.Is(err, name.ErrReserved) {
		t.Errorf("Registrable = %v, want %v", err, name.ErrReserved)
	}
}

func TestPolicyRefusesOptions(t *testing.T) {
	t.Parallel()
	f := func(o name.Options, want string) {
		t.Helper()
		if _, err := name.NewPolicy(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewPolicy(%+v) = %v, want an error with %q", o, err, want)
		}
	}
	f(name.Options{Scripts: []string{"latin"}}, `no script is called "latin"`)
	f(name.Options{Scripts: []string{"Latin", "Common"}}, "Common is what no script has to itself")
	f(name.Options{Scripts: []string{"Inherited"}}, "Inherited")
	f(name.Options{Scripts: []string{}}, "allows no letters")
	f(name.Options{Punctuation: "_ "}, "U+0020")
	f(name.Options{Punctuation: "a"}, "U+0061")
	f(name.Options{Punctuation: "·"}, "U+00B7")
	f(name.Options{Punctuation: "\x00"}, "U+0000")
}

// TestIdempotentWhateverIsAllowed asks every code point under a policy that
// allows all scripts, but for those that are no letters and that NFKC leaves
// alone: they are refused, as TestIdempotent sees.
func TestIdempotentWhateverIsAllowed(t *testing.T) {
	t.Parallel()
	scripts := allScripts()
	p := policy(t, name.Options{Scripts: scripts, AllowMixed: true, AllowConfusable: true})
	accepted := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || !unicode.IsLetter(r) && norm.NFKC.IsNormalString(string(r)) {
			continue
		}
		once, err := p.Canonical("ab" + string(r))
		if err != nil {
			continue
		}
		accepted++
		if twice, err := p.Canonical(once); err != nil || twice != once {
			t.Errorf("U+%04X: canonical %q, but again = %q, %v", r, once, twice, err)
		}
	}
	if accepted < 130_000 { // Unicode 15 has 137,000 letters
		t.Errorf("only %d code points accepted", accepted)
	}
}

// TestIdempotentPairs asks every letter, and every starter that can compose,
// together with every mark that composes with anything, and jamo with jamo.
func TestIdempotentPairs(t *testing.T) {
	t.Parallel()
	scripts := []string{"Latin", "Greek", "Cyrillic", "Hiragana", "Katakana", "Arabic", "Hangul"}
	all := policy(t, name.Options{Scripts: scripts, AllowMixed: true, AllowConfusable: true})
	pair := func(in string) (ok bool) {
		once, err := all.Canonical(in)
		if err != nil {
			return false
		}
		if twice, err := all.Canonical(once); err != nil || twice != once {
			t.Errorf("%+q: canonical %+q, but again = %+q, %v", in, once, twice, err)
		}
		return true
	}
	// The marks that end a composition in Unicode, but for scripts that are not asked here.
	marks := "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u030f\u0311\u0313\u0314\u031b" +
		"\u0323\u0324\u0325\u0326\u0327\u0328\u032d\u032e\u0330\u0331\u0338\u0342\u0345\u0653\u0654\u0655\u3099\u309a"
	composed := 0
	for _, table := range []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Hiragana, unicode.Katakana, unicode.Arabic} {
		for _, span := range table.R16 {
			for r := rune(span.Lo); r <= rune(span.Hi); r += rune(span.Stride) {
				for _, mark := range marks {
					if pair("ab" + string(r) + string(mark)) {
						composed++
					}
				}
			}
		}
	}
	for first := rune(0x1100); first <= 0x1113; first++ {
		for second := rune(0x1160); second <= 0x11C3; second++ {
			if pair("ab" + string(first) + string(second)) {
				composed++
			}
		}
	}
	if composed < 2_000 {
		t.Errorf("only %d pairs accepted: the test tests nothing", composed)
	}
}

// TestNothingLooksPlain swaps letters of plain names for what looks like them:
// no spelling of "admin" but its own is accepted.
func TestNothingLooksPlain(t *testing.T) {
	t.Parallel()
	refused := 0
	var odd []rune
	for _, table := range []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek} {
		for _, span := range table.R16 {
			for r := rune(span.Lo); r <= rune(span.Hi); r += rune(span.Stride) {
				if r >= 0x80 {
					odd = append(odd, r)
				}
			}
		}
	}
	for _, plain := range []string{"admin", "google", "coc", "paypal", "love8", "6six"} {
		for i, letter := range plain {
			for _, r := range odd {
				swapped := plain[:i] + string(r) + plain[i+utf8.RuneLen(letter):]
				switch _, err := name.Canonical(swapped); {
				case errors.Is(err, name.ErrConfusable):
					refused++
					if !strings.Contains(err.Error(), "look like") {
						t.Errorf("Canonical(%q) = %v, want what it looks like", swapped, err)
					}
				case errors.Is(err, name.ErrCharacter), err == nil:
				default:
					t.Errorf("Canonical(%q) = %v", swapped, err)
				}
			}
		}
	}
	if want := 29 * 30; refused < want { // 29 letters, each open to all Latin look-alikes
		t.Errorf("only %d swaps refused, want %d or more", refused, want)
	}
	for plain, odd := range map[string]string{
		"a": "ɑаα", "b": "ƅь", "c": "ᴄсϲ", "d": "ԁ", "e": "ꬲеҽ", "f": "ꞙꬵẝք", "g": "ɡᶃƍց", "h": "һհ", "i": "ıɩɪіӏꙇι", "j": "јϳ",
		"l": "ǀ", "n": "ոռ", "o": "ᴏᴑꬽоοσօ", "p": "рρ", "q": "ԛգզ", "r": "ꭇꭈг", "s": "ꜱƽѕ", "u": "ʋᴜꭎꭒυս", "v": "ᴠѵν", "w": "ɯᴡѡԝա",
		"x": "х", "y": "ɣʏᶌỿꭚуүγ", "z": "ᴢ", "6": "б", "8": "ȣ",
	} {
		scripts := []string{"Latin", "Cyrillic", "Greek", "Armenian"}
		p := policy(t, name.Options{Scripts: scripts, AllowMixed: true})
		for _, r := range odd {
			got, err := p.Canonical("xx" + string(r))
			if r == 'ϲ' { // NFKC makes another sigma of it
				continue
			}
			if !errors.Is(err, name.ErrConfusable) || !strings.Contains(err.Error(), `"xx`+plain+`"`) {
				t.Errorf("U+%04X: Canonical = %q, %v, want that it looks like xx%s", r, got, err, plain)
			}
		}
	}
}

func FuzzPolicy(f *testing.F) {
	scripts := allScripts()
	p := policy(f, name.Options{Scripts: scripts})
	for _, s := range []string{"love", "сос", "한글", "ᄀ\u1161\u11a8", "かか\u3099", "α\u0345\u0301", "ΑΣΑΣ", "\u212bab", "ꭰꭱᎠ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := p.Canonical(raw)
		if err != nil {
			if once != "" {
				t.Errorf("Canonical(%q) = %q with error %v", raw, once, err)
			}
			if !utf8.ValidString(err.Error()) {
				t.Errorf("Canonical(%q): the error is no UTF-8: %q", raw, err)
			}
			return
		}
		if twice, err := p.Canonical(once); err != nil || twice != once {
			t.Errorf("Canonical(%q) = %q, but again = %q, %v", raw, once, twice, err)
		}
	})
}
