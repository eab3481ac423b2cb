package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
)

func newLint(std streams) *cobra.Command {
	return &cobra.Command{
		Use:        "lint [FILE ...]",
		SuggestFor: []string{"validate"},
		Short:      "Check playbooks and their unit tests",
		Long: `lint loads playbooks as run and serve do and prints every fault of all files at
once, each with its place. A *_test.yaml is checked as a file of tests, with the
playbook it is about. Without an argument it checks what is built in.

Exit codes: 0 no fault, 2 faults.`,
		RunE: func(_ *cobra.Command, args []string) error { return lint(args, std) },
	}
}

func lint(paths []string, std streams) error {
	s := newSuites()
	var files []playbooks.File
	var errs []error
	if len(paths) == 0 {
		var err error
		if files, err = playbooks.Builtin(); err != nil {
			return err
		}
		_, err = s.builtin()
		errs = append(errs, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, playbooks.TestSuffix) {
			_, err := s.paths([]string{path})
			errs = append(errs, err)
			continue
		}
		f, err := playbooks.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("read playbook: %w", err))
			continue
		}
		files = append(files, f)
	}
	loaded, err := playbooks.Load(s.catalog, files...)
	if err := errors.Join(append([]error{err}, errs...)...); err != nil {
		// As compilers print them, for editors: nothing before the place.
		_, _ = fmt.Fprintln(std.err, err)
		return exitCode(exitUsage)
	}
	for i, p := range loaded {
		rules := 0
		for _, step := range p.Steps {
			rules += len(step.Rules)
		}
		_, err := fmt.Fprintf(std.out, "ok    %s: %s: %s, %s, %s\n", files[i].Name, p.Name,
			notify.Count(len(p.Steps), "step"), notify.Count(rules, "rule"), notify.Count(len(p.Causes), "cause"))
		if err != nil {
			return err
		}
	}
	return nil
}
