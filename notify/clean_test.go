package notify

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/regpath/diagnose/playbooks"
)

func TestLine(t *testing.T) {
	t.Parallel()
	f := func(s string, limit int, want string) {
		t.Helper()
		if got := Line(s, limit); got != want {
			t.Errorf("Line(%q, %d) = %q, want %q", s, limit, got, want)
		}
	}
	f("", 10, "")
	f(" \n\t ", 10, "")
	f("  a \r\n\t b  ", 10, "a b")
	f("abc", 3, "abc")
	f("abcd", 3, "ab…")
	f("abcd", 1, "…")
	f("abcd", 0, "")
	f("abcd", -1, "")
	f("\x1b[31mred", 20, `\x1b[31mred`)
	f("a\u202eb", 20, `a\u202eb`)
	f("lo\u200bve", 20, `lo\u200bve`)
	f("a\u2028b", 20, "a b")
	f("\u3164", 20, `\u3164`)
	f("區域 é", 20, "區域 é")
	f("\u202e\u202e", 7, `\u202e…`)
	f(`it's "so"`, 20, `it's "so"`)
	f("a\xffb", 20, "a\uFFFDb")
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	f := func(s string, limit int, want string) {
		t.Helper()
		if got := Truncate(s, limit); got != want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", s, limit, got, want)
		}
	}
	f("日本語", 3, "日本語")
	f("日本語", 2, "日…")
	f("\xff\xff\xff", 2, "\xff…")
	f("all four shards answer", 17, "all four shards …")
	f("all four shards answer", 15, "all four …")
	f("a wonderfully long word", 10, "a wonderf…") // half of it would be lost
	f("ge\u0301ne\u0301ral", 3, "g…")              // not an e without its accent
	f("👨\u200d👩\u200d👧 x", 4, "👨\u200d👩…")         // alone, and yet too long
	f("한국어", 2, "한…")
	// Alertmanager's own truncation panics on this one.
	f(strings.Repeat("世", 100), 97, strings.Repeat("世", 96)+"…")
}

// TestConclusionOfALongSummary: the first sentence is looked for in all of the summary,
// and cut after a word.
func TestConclusionOfALongSummary(t *testing.T) {
	t.Parallel()
	r := playbooks.Report{Verdict: playbooks.Healthy, Summary: strings.Repeat("all answer ", 17) + "in time everywhere. More."}
	if got, want := Conclusion(r), "Healthy: "+strings.Repeat("all answer ", 17)+"in time …"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	f := func(s string, limit int, want ...string) {
		t.Helper()
		if got := strings.Join(wrap(s, limit), "|"); got != strings.Join(want, "|") {
			t.Errorf("wrap(%q, %d) = %q, want %q", s, limit, got, strings.Join(want, "|"))
		}
	}
	f("", 10, "")
	f("one two three", 7, "one two", "three")
	f("abcdefgh ij", 3, "abc", "def", "gh", "ij")
	f("長い長い", 4, "長い", "長い")
	f("長い", 1, "長", "い")
	f("aa \u0301", 2, "aa", "\u0301")
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[0m\u202e b", 5)
	f.Add(strings.Repeat("世", 100), 97)
	f.Add("\xff\x00", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		got := Line(s, limit)
		if n := utf8.RuneCountInString(got); n > max(limit, 0) {
			t.Errorf("Line(%q, %d) has %d runes", s, limit, n)
		}
		if !utf8.ValidString(got) {
			t.Errorf("Line(%q, %d) = %q is not UTF-8", s, limit, got)
		}
		for _, r := range got {
			if !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) || (unicode.IsSpace(r) && r != ' ') {
				t.Errorf("Line(%q, %d) lets %U through", s, limit, r)
			}
		}
		if again := Line(got, limit); again != got {
			t.Errorf("Line(Line(%q)) = %q, want %q", s, again, got)
		}
	})
}

func FuzzTruncate(f *testing.F) {
	f.Add("日本語", 2)
	f.Add("\xe6\x97", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		got := Truncate(s, limit)
		if n := utf8.RuneCountInString(got); n > max(limit, 0) {
			t.Errorf("Truncate(%q, %d) has %d runes", s, limit, n)
		}
		if utf8.RuneCountInString(s) <= limit && got != s {
			t.Errorf("Truncate(%q, %d) = %q, want it whole", s, limit, got)
		}
		if !strings.HasPrefix(s, strings.TrimSuffix(got, ellipsis)) {
			t.Errorf("Truncate(%q, %d) = %q is no beginning of it", s, limit, got)
		}
	})
}

func FuzzWrap(f *testing.F) {
	f.Add("one two three", 7)
	f.Add("長い e\u0301", 2)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		s, limit = Line(s, 500), min(limit, 500)
		lines := wrap(s, limit)
		if got, want := strings.Join(strings.Fields(strings.Join(lines, "")), ""), strings.Join(strings.Fields(s), ""); got != want {
			t.Errorf("wrap(%q, %d) loses text: %q", s, limit, lines)
		}
		for _, l := range lines {
			if cells(l) > max(limit, 2) {
				t.Errorf("wrap(%q, %d) has a line of %d cells: %q", s, limit, cells(l), l)
			}
		}
	})
}
