package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestManualCommands carries out what the manuals say of this program, but for a
// moment only and on ports of the test's own.
func TestManualCommands(t *testing.T) {
	t.Parallel()
	var commands [][]string
	for _, manual := range []string{"../../README.md", "../../reference/README.md"} {
		text, err := os.ReadFile(manual)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:bin/checker|go run \./cmd/checker)\b([^#\n]*)`).FindAllStringSubmatch(string(text), -1) {
			commands = append(commands, strings.Fields(m[1]))
		}
	}
	if len(commands) < 4 {
		t.Errorf("only %d commands were found in the manuals", len(commands))
	}
	stdout := newOutput()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan int, 1)
	go func() {
		served <- run(ctx, []string{"--listen", "127.0.0.1:0", "--names", "100", "--faults"}, noEnvironment, stdout, newOutput())
	}()
	<-stdout.line
	url := strings.TrimSuffix(strings.Fields(stdout.String())[3], ",")
	stopped, stop := context.WithCancel(t.Context())
	stop() // before it is up, which is after its flags have been read
	for _, args := range commands {
		ctx, extra := stopped, []string{"--listen", "127.0.0.1:0"}
		switch {
		case len(args) > 0 && args[0] == "load":
			ctx, extra = t.Context(), []string{"--url", url, "--names", "100", "--for", "300ms"}
		case strings.Contains(strings.Join(args, " "), "…"):
			continue // an outline
		}
		stderr := newOutput()
		if code := run(ctx, append(args, extra...), noEnvironment, newOutput(), stderr); code != exitOK {
			t.Errorf("checker %q: exit code %d: %s", args, code, stderr)
		}
	}
	cancel()
	if code := <-served; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
