package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
)

func newTest(std streams) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "test [FILE|DIR ...]",
		Short: "Run unit tests of playbooks",
		Long: `test judges the evidence that unit tests give and compares what comes out with what
they expect. Of a folder it takes every *_test.yaml; without an argument it runs
the tests of the built-in playbooks. It also lists the causes and rules that no
test has reached.

Exit codes: 0 passed, 1 failed, 2 bad usage, tests or playbook.`,
		Example: "  diagnose test playbooks/ --strict",
		RunE: func(_ *cobra.Command, args []string) error {
			s := newSuites()
			load := s.builtin
			if len(args) > 0 {
				load = func() ([]*playbooks.Suite, error) { return s.paths(args) }
			}
			suites, err := load()
			if err != nil {
				return err
			}
			failed, missed := runSuites(std.out, suites)
			if failed || (strict && missed) {
				return exitCode(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also when a cause or rule is reached by no test")
	return cmd
}

// exitFailed is what a test that does not pass ends with.
const exitFailed = exitCauseFound

// runSuites runs all tests and writes what went wrong, a line for each file,
// and what no test has reached.
func runSuites(out io.Writer, suites []*playbooks.Suite) (failed, missed bool) {
	var b strings.Builder
	coverage := map[*playbooks.Playbook]*playbooks.Coverage{}
	var order []*playbooks.Playbook
	for _, s := range suites {
		if coverage[s.Playbook] == nil {
			coverage[s.Playbook] = playbooks.NewCoverage(s.Playbook)
			order = append(order, s.Playbook)
		}
		failures := 0
		for _, c := range s.Cases {
			coverage[s.Playbook].Add(c.Measurements)
			differences := c.Expect.Check(playbooks.Judge(s.Playbook, c.Measurements))
			if len(differences) == 0 {
				continue
			}
			failures++
			fmt.Fprintf(&b, "FAIL  %s:%d: %s\n", s.File, c.Line, c.Name)
			for _, d := range differences {
				fmt.Fprintf(&b, "      %s\n", d)
			}
		}
		if failures > 0 {
			failed = true
			fmt.Fprintf(&b, "FAIL  %s: %d of %s\n", s.File, failures, notify.Count(len(s.Cases), "test"))
			continue
		}
		fmt.Fprintf(&b, "ok    %s: %s\n", s.File, notify.Count(len(s.Cases), "test"))
	}
	for _, p := range order {
		for _, m := range coverage[p].Missed() {
			missed = true
			fmt.Fprintf(&b, "not reached by any test: %s\n", m)
		}
	}
	_, _ = io.WriteString(out, b.String())
	return failed, missed
}
