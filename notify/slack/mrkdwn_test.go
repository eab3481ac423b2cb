package slack

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
	t.Parallel()
	f := func(s string, limit int, want string) {
		t.Helper()
		if got := clip(s, limit); got != want {
			t.Errorf("clip(%q, %d) = %q, want %q", s, limit, got, want)
		}
	}
	f("", 5, "")
	f("a&b", 7, "a&amp;b")
	f("a&bc", 7, "a&amp;…")
	f("a&bc", 6, "a…") // never half an entity
	f("<&>", 0, "")
	f("日本語", 2, "日…")
	f("😀😀", 3, "😀…") // two units each
	f("&amp;", 20, "&amp;amp;")
	f("a & b are slow", 12, "a &amp; b …")
	f("ae\u0301&b", 3, "a…")
}

func TestClipLines(t *testing.T) {
	t.Parallel()
	f := func(limit int, want string, lines ...string) {
		t.Helper()
		if got := clipLines(lines, limit); got != want {
			t.Errorf("clipLines(%q, %d) = %q, want %q", lines, limit, got, want)
		}
	}
	f(20, "one\ntwo", "one", "two")
	f(22, "one\n… and 2 more", "one", "two two two two", "three three")
	f(5, "long…", "longer than that", "two")
}

func TestLink(t *testing.T) {
	t.Parallel()
	f := func(raw, want string) {
		t.Helper()
		if got := link("src", raw); got != want {
			t.Errorf("link(%q) = %q, want %q", raw, got, want)
		}
	}
	f("https://h/a?b=1&c=2", "<https://h/a?b=1&amp;c=2|src (h)>")
	f("http://h/<a>|b", "<http://h/%3Ca%3E%7Cb|src (h)>")
	f("javascript:alert(1)", "")
	f("https://u:p@h/", "")
	f("http://", "")
	f("http://h/"+strings.Repeat("a", maxURL), "")
}

// half matches an entity that was cut, at the end or in the middle.
var half = regexp.MustCompile(`&($|[^alg]|a($|[^m])|am($|[^p])|amp($|[^;])|l($|[^t])|lt($|[^;])|g($|[^t])|gt($|[^;]))`)

func FuzzFit(f *testing.F) {
	f.Add("a&b<c>d", 5)
	f.Add("😀&", 3)
	f.Add("\xff&", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		for _, got := range []string{clip(s, limit), clipLines(strings.Split(s, "\n"), max(limit, 0))} {
			if units(got) > max(limit, 0) {
				t.Errorf("%q clipped to %d has %d units", s, limit, units(got))
			}
			if !utf8.ValidString(got) || strings.ContainsAny(got, "<>") || half.MatchString(got) {
				t.Errorf("%q clipped to %d gives %q", s, limit, got)
			}
		}
		escaped, rest := fit(s, limit)
		if !strings.HasSuffix(s, rest) || (escaped == "" && rest == "" && s != "") {
			t.Errorf("fit(%q, %d) = %q, %q loses text", s, limit, escaped, rest)
		}
	})
}

func FuzzPaginate(f *testing.F) {
	f.Add("a\nb", 1)
	f.Add(strings.Repeat("x", 9000)+"\n```\n&", 3)
	f.Add("\n\n\n", 5000)
	f.Fuzz(func(t *testing.T, s string, times int) {
		s = strings.Repeat(strings.ToValidUTF8(s, "?"), 1+max(0, min(times, 40_000/max(len(s), 1))))
		pages := paginate(strings.Split(s, "\n"))
		if len(pages) > maxPages {
			t.Errorf("%d pages", len(pages))
		}
		for i, p := range pages {
			if units(p)+fenceCost > budgetPage || strings.Contains(p, "```") {
				t.Errorf("page %d has %d units or an open fence", i, units(p))
			}
		}
		whole := strings.Join(pages, "")
		if strings.Contains(whole, "are left out here") {
			return
		}
		if got, want := strings.ReplaceAll(whole, "\n", ""), strings.ReplaceAll(defuse(s), "\n", ""); got != escapeAll(want) {
			t.Errorf("pages lose text: %d bytes, want %d", len(got), len(escapeAll(want)))
		}
	})
}

func escapeAll(s string) string {
	e, _ := fit(s, 1<<30)
	return e
}

func FuzzLink(f *testing.F) {
	f.Add("http://h/a|b>c")
	f.Fuzz(func(t *testing.T, raw string) {
		got := link("l", raw)
		if got == "" {
			return
		}
		if strings.Count(got, "<") != 1 || strings.Count(got, ">") != 1 || strings.Count(got, "|") != 1 || !strings.HasPrefix(got, "<http") || strings.ContainsAny(got, "\n`") {
			t.Errorf("link(%q) = %q", raw, got)
		}
	})
}
