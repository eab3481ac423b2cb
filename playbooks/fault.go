package playbooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a playbook file.
type Fault struct {
	File         string
	Line, Column int // from 1
	// Path leads to the value: "causes[2].when[0]".
	Path    string
	Problem string
	// Expected says what would be right; empty where the problem says it.
	Expected string
	// Suggestion is the known word nearest to a misspelt one; may be empty.
	Suggestion string
}

// Error returns the fault in one line, as compilers print it.
func (f Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Problem)
	if f.Expected != "" {
		b.WriteString("; expected " + f.Expected)
	}
	if f.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", f.Suggestion)
	}
	return b.String()
}

// LoadError holds every fault of every file that was to be loaded, in the
// order of the files and of the lines.
type LoadError struct{ Faults []Fault }

// Error returns one fault a line.
func (e *LoadError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (e *LoadError) Unwrap() []error {
	errs := make([]error, len(e.Faults))
	for i, f := range e.Faults {
		errs[i] = f
	}
	return errs
}

// byPlace sorts faults by line and column within their file, the files in the
// given order.
func byPlace(faults []Fault, files []string) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(slices.Index(files, a.File), slices.Index(files, b.File)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
}
