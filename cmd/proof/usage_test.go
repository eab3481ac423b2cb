package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestUsage: a command line of which no sense can be made is refused before anything
// is started.
func TestUsage(t *testing.T) {
	t.Parallel()
	f := func(args, want string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &stdout, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), "proof: "+want) || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, %q, %q; want %d and %q", args, code, &stdout, &stderr, exitUsage, want)
		}
	}
	f("birst", `unknown command "birst": want one of `)
	f("help birst", `unknown command "birst": want one of `)
	f("completion bahs", `unknown command "bahs": want one of `)
	f("burst now", `proof burst: want flags only, got "now" as well`)
	f("burst --gruops 3", `unknown flag --gruops; did you mean "--groups"?`)
	f("accuracy --sample long", `--sample: want a duration such as 500ms or 10s, got "long"`)
	f("bench --rounds -1", "--rounds: want at least 1, got -1")
	f("burst --webhooks 0 --groups -3", "--groups: want at least 1, got -3\n--webhooks: want at least 1, got 0\n")
	f("bench --duration -2s", "--duration: want what is not negative, got -2s")
	f("burst --diagnose /nowhere", "--diagnose: /nowhere cannot be run: no such file or directory; make build makes it")
	f("latency --diagnose /", "--diagnose: / cannot be run: ")
}
