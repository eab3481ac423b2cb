package name_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/regpath/diagnose/reference/name"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	ok := func(in, want string) {
		t.Helper()
		got, err := name.Canonical(in)
		if err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	ok("love", "love")
	ok("LoVe", "love")
	ok("  love\t\n", "love")
	ok("\u00a0love\u3000", "love")
	ok("ａｄｍｉｎ", "admin")  // full width
	ok("ﬁnch", "finch")   // ligature
	ok("Ⅷabc", "viiiabc") // Roman numeral
	ok("a.b_c-9", "a.b_c-9")
	ok("Ünïcode", "ünïcode")
	ok("U\u0308ber", "über") // combining mark that composes
	ok("王小明", "王小明")
	ok("王小明abc", "王小明abc") // as people write
	ok("ADMİN", "admin")   // the dot is part of the small letter anyhow
	ok("ışık", "ışık")     // ş tells it from every plain name
	ok("bjørnæs", "bjørnæs")
	ok("zz0canary-1", "zz0canary-1") // reserved, yet testable
	ok(strings.Repeat("a", 32), strings.Repeat("a", 32))
	ok(strings.Repeat("é", 32), strings.Repeat("é", 32)) // 64 bytes

	bad := func(in string, want error, text string) {
		t.Helper()
		got, err := name.Canonical(in)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("Canonical(%q) = %q, %v, want an error %q with %q", in, got, err, want, text)
		}
	}
	bad("", name.ErrShort, "0 characters")
	bad("ab", name.ErrShort, "2 characters")
	bad("   ", name.ErrShort, "0 characters")
	bad(strings.Repeat("a", 33), name.ErrLong, "33 characters")
	bad(strings.Repeat("王", 22), name.ErrLong, "66 bytes")
	bad(strings.Repeat("a", 10<<20), name.ErrLong, "10485760 bytes")
	bad(strings.Repeat("\ufdfa", 20), name.ErrCharacter, "U+")
	bad("a\x00bc", name.ErrCharacter, "U+0000 (control character)")
	bad("a\u200bbc", name.ErrCharacter, "U+200B (invisible character)")
	bad("a\u200dbc", name.ErrCharacter, "U+200D (invisible character)")
	bad("a\u00adbc", name.ErrCharacter, "U+00AD (invisible character)")
	bad("\u202eabc", name.ErrCharacter, "U+202E (invisible character)")
	bad("a\ufe0fbc", name.ErrCharacter, "U+FE0F (invisible character)")
	bad("a\u3164bc", name.ErrCharacter, "U+1160 (invisible character)")
	bad("a bc", name.ErrCharacter, "U+0020 (space)")
	bad("a\u0301\u0301bc", name.ErrCharacter, "U+0301 (combining mark)")
	bad("J\u030cab", name.ErrCharacter, "U+030C (combining mark)")
	bad("аdmin", name.ErrCharacter, "U+0430 (Cyrillic letter) is character 1; allowed are letters of Latin, Han, digits 0-9 and _.-") // Cyrillic
	bad("ab\u0441", name.ErrCharacter, "U+0441 (Cyrillic letter) is character 3")
	bad("  ﬁ\u0430", name.ErrCharacter, "is character 3") // counted as it is spelt canonically
	bad("admın", name.ErrConfusable, `U+0131 (Latin letter) is character 4 and makes the name look like "admin"`)
	bad("ᴀdmin\u0430", name.ErrCharacter, "U+0430")
	bad("gооgle", name.ErrCharacter, "U+043E")
	bad("ɡoogle_7", name.ErrConfusable, `"google_7"`)
	bad("abc٣", name.ErrCharacter, "U+0663 (digit that is not ASCII)")
	bad("<script>", name.ErrCharacter, "U+003C (symbol or punctuation)")
	bad("'; drop table", name.ErrCharacter, "U+0027")
	bad("ab😀c", name.ErrCharacter, "U+1F600")
	bad("\ufffdabc", name.ErrCharacter, "U+FFFD")
	bad("...", name.ErrCharacter, "punctuation only")
	bad("abc\xff", name.ErrEncoding, "UTF-8")
	bad("\xed\xa0\x80abc", name.ErrEncoding, "UTF-8") // a lone surrogate
}

func TestRegistrable(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"zz0canary", "ZZ0CANARY-7", "ｚｚ０canaryx", " zz0canary1"} {
		if got, err := name.Registrable(in); !errors.Is(err, name.ErrReserved) {
			t.Errorf("Registrable(%q) = %q, %v, want %v", in, got, err, name.ErrReserved)
		}
	}
	if got, err := name.Registrable("zz0canar"); err != nil || got != "zz0canar" {
		t.Errorf("Registrable(%q) = %q, %v, want it back", "zz0canar", got, err)
	}
	if _, err := name.Registrable("a"); !errors.Is(err, name.ErrShort) {
		t.Errorf("Registrable(%q) = %v, want %v", "a", err, name.ErrShort)
	}
}

// TestIdempotent asks every code point between other letters, and those that
// are accepted there also alone and at the end.
func TestIdempotent(t *testing.T) {
	t.Parallel()
	accepted := 0
	idempotent := func(r rune, in string) (ok bool) {
		once, err := name.Canonical(in)
		if err != nil {
			return false
		}
		if twice, err := name.Canonical(once); err != nil || twice != once {
			t.Errorf("U+%04X: Canonical(%q) = %q, but again = %q, %v", r, in, once, twice, err)
		}
		return true
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || !idempotent(r, "ab"+string(r)+"cd") {
			continue
		}
		accepted++
		idempotent(r, string(r)+string(r)+string(r))
		idempotent(r, "ab"+string(r))
	}
	if accepted < 90_000 { // Unicode 15 has 98,408 Han and about 1,400 Latin letters, and what NFKC makes of others
		t.Errorf("only %d code points accepted: the allow-list is broken", accepted)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"love", "J\u030cab", "ﬁnch", "İstanbul", "a\u200bb", "王小明", "\xff", "ſs\u0307x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := name.Canonical(raw)
		if err != nil {
			if once != "" {
				t.Errorf("Canonical(%q) = %q with error %v", raw, once, err)
			}
			return
		}
		if n := utf8.RuneCountInString(once); n < name.MinRunes || n > name.MaxRunes || len(once) > name.MaxBytes {
			t.Errorf("Canonical(%q) = %q: %d runes, %d bytes", raw, once, n, len(once))
		}
		if twice, err := name.Canonical(once); err != nil || twice != once {
			t.Errorf("Canonical(%q) = %q, but again = %q, %v", raw, once, twice, err)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	for _, in := range []string{"user0012345", "Ünïcode123"} {
		b.Run(in, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := name.Canonical(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
