package spelling_test

import (
	"testing"

	"github.com/regpath/diagnose/playbooks/spelling"
)

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	known := []string{"serve", "replay", "registration-path", "run", "rum"}
	f := func(word, want string) {
		t.Helper()
		if got := spelling.DidYouMean(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	f("sevre", `; did you mean "serve"?`)
	f("registration", `; did you mean "registration-path"?`) // what it begins with
	f("rux", `; did you mean "rum"?`)                        // of two as near, the first by name
	f("anything", "")
	f("", "")
}
