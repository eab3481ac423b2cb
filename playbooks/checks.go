package playbooks

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// required returns a text that must be there.
func (d *document) required(owner *yaml.Node, t text, path string) string {
	switch {
	case !t.set():
		if !d.faulty(path) {
			d.add(owner, path, "missing", "")
		}
	case strings.TrimSpace(t.Value) == "":
		d.add(t.node, path, "empty", "some text")
	}
	return strings.TrimSpace(t.Value)
}

// faulty says whether something was said about the path already.
func (d *document) faulty(path string) bool {
	return slices.ContainsFunc(d.faults, func(f Fault) bool { return f.Path == path })
}

// reference checks that a text names one of the known.
func (d *document) reference(t text, path, what string, known []string) {
	if t.set() && !slices.Contains(known, t.Value) {
		d.addWord(t.node, path, fmt.Sprintf("unknown %s %q", what, t.Value), "one of "+strings.Join(known, ", "), known)
	}
}

// faultyBelow says whether something was said about the path or what is in it.
func (d *document) faultyBelow(path string) bool {
	return slices.ContainsFunc(d.faults, func(f Fault) bool { return strings.HasPrefix(f.Path, path) })
}
