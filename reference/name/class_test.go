package name_test

import (
	"testing"

	"github.com/regpath/diagnose/reference/name"
)

func TestClassOf(t *testing.T) {
	t.Parallel()
	for n, want := range map[string]name.Class{
		"love": name.Letters, "love2": name.Digits, "2love": name.Digits, "l.ove": name.Punctuation, "love2_": name.Punctuation,
		"_2love": name.Punctuation, "müller": name.Unicode, "_2müller": name.Unicode, "名字1": name.Unicode,
	} {
		if got := name.ClassOf(n); got != want {
			t.Errorf("ClassOf(%q) = %q, want %q", n, got, want)
		}
	}
}
