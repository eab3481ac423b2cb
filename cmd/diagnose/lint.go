package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
)

func newLint(std streams) *cobra.Command {
	return &cobra.Command{
		Use:        "lint [FILE|DIR ...]",
		SuggestFor: []string{"validate"},
		Short:      "Check playbooks and their unit tests",
		Long: `lint loads playbooks as run and serve do and prints every fault of all files at
once, each with its place. A *_test.yaml, or what has tests, is checked as a file of
tests, with the playbook it is about. Of a folder it takes every *.yaml: playbooks with
their parts, and tests. Without an argument it checks what is built in.

Exit codes: 0 no fault, 2 faults.`,
		RunE: func(_ *cobra.Command, args []string) error { return lint(args, std) },
	}
}

func lint(paths []string, std streams) error {
	s := newSuites()
	var set lintSet
	var suites []*playbooks.Suite
	var errs []error
	if len(paths) == 0 {
		var err error
		if set.playbooks, err = playbooks.Builtin(); err != nil {
			return err
		}
		suites, err = s.builtin()
		errs = append(errs, err)
	}
	for _, path := range paths {
		errs = append(errs, set.add(path))
	}
	for _, path := range set.tests {
		suite, err := s.paths([]string{path})
		suites, errs = append(suites, suite...), append(errs, err)
	}
	loaded, err := playbooks.Load(s.catalog, set.playbooks...)
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
		_, _ = fmt.Fprintf(std.out, "ok    %s: %s: %s, %s, %s\n", set.playbooks[i].Name, p.Name,
			notify.Count(len(p.Steps), "step"), notify.Count(rules, "rule"), notify.Count(len(p.Causes), "cause"))
	}
	for _, suite := range suites {
		_, _ = fmt.Fprintf(std.out, "ok    %s: %s of %s\n", suite.File, notify.Count(len(suite.Cases), "test"), suite.Playbook.Name)
	}
	for _, name := range set.others {
		_, _ = fmt.Fprintf(std.out, "skip  %s: neither a playbook nor tests of one\n", name)
	}
	return nil
}

// lintSet is what lint is to look at.
type lintSet struct {
	playbooks []playbooks.File
	tests     []string
	// others are files in folders that are neither.
	others []string
}

// add adds a file, or all that a folder holds.
func (s *lintSet) add(path string) error {
	if path == "" {
		return errors.New("want the name of a file or of a folder, got none")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return s.addFolder(path)
	}
	if strings.HasSuffix(path, playbooks.TestSuffix) {
		s.tests = append(s.tests, path)
		return nil
	}
	f, err := readPlaybook(path)
	switch {
	case err != nil:
		return fmt.Errorf("read playbook: %w", err)
	case playbooks.KindOf(f.Data) == playbooks.IsTests:
		s.tests = append(s.tests, path)
	default:
		s.playbooks = append(s.playbooks, f)
	}
	return nil
}

func (s *lintSet) addFolder(path string) error {
	names, err := filesBelow(path, ".yaml")
	if err != nil {
		return fmt.Errorf("read playbooks: %w", err)
	}
	var found lintSet
	var errs []error
	parts := map[string]playbooks.File{} // that no playbook has named yet
	for _, name := range names {
		data, err := shell.ReadText(name)
		kind := playbooks.KindOf(data)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("read playbook: %w", err))
		case kind == playbooks.IsPart:
			parts[name] = playbooks.File{Name: name, Data: data}
		case kind == playbooks.IsOther && !strings.HasSuffix(name, playbooks.TestSuffix):
			found.others = append(found.others, name)
		default:
			errs = append(errs, found.add(name))
		}
	}
	for _, f := range found.playbooks {
		for _, part := range f.Parts {
			delete(parts, part.Name)
		}
	}
	for _, name := range names {
		if f, ok := parts[name]; ok {
			found.playbooks = append(found.playbooks, f) // which Load refuses for what it is
		}
	}
	if len(found.playbooks)+len(found.tests)+len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s: no playbook and no tests in or below it, among %s: want *.yaml with name, title, timeout and steps, and *%s beside it",
			path, notify.Count(len(names), "*.yaml file"), playbooks.TestSuffix))
	}
	s.playbooks = slices.Concat(s.playbooks, found.playbooks)
	s.tests, s.others = slices.Concat(s.tests, found.tests), slices.Concat(s.others, found.others)
	return errors.Join(errs...)
}
