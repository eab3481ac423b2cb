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

// optional returns a text that may be left out but not left empty.
func (d *document) optional(t text, path string) string {
	if !t.set() {
		return ""
	}
	return d.required(t.node, t, path)
}

// faulty says whether something was said about the path already.
func (d *document) faulty(path string) bool {
	return slices.ContainsFunc(d.faults, func(f Fault) bool { return f.File == d.file && f.Path == path })
}

// reference checks that a text names one of the known.
func (d *document) reference(t text, path, what string, known []string) {
	if t.set() && !slices.Contains(known, t.Value) {
		d.addWord(t.node, path, fmt.Sprintf("unknown %s %q", what, t.Value), "one of "+strings.Join(known, ", "), known)
	}
}

// faultyBelow says whether something was said about the path or what is in it.
func (d *document) faultyBelow(path string) bool {
	return slices.ContainsFunc(d.faults, func(f Fault) bool { return f.File == d.file && strings.HasPrefix(f.Path, path) })
}

// entries calls each with the entries of a mapping.
func (d *document) entries(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	if !d.is(n, yaml.MappingNode, path, "a mapping") {
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case value.Kind == yaml.AliasNode || value.Anchor != "":
			d.add(value, join(path, key.Value), "anchors and aliases are not supported", "the value written out")
		case seen[key.Value]:
			d.add(key, path, fmt.Sprintf("%q is given twice", key.Value), "")
		default:
			seen[key.Value] = true
			each(key, value)
		}
	}
}
