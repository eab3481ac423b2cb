package playbooks

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/playbooks/spelling"
)

// DecodeStrict is ReadStrict for files whose types rule everything out: its error
// is that of the Reading.
func DecodeStrict(name string, data []byte, into any) error {
	return ReadStrict(name, data, into).Err()
}

// Reading is a YAML file that has been read. It gathers every fault with its place:
// those of the form, and those that the reader adds about what the values mean.
type Reading struct{ document *document }

// ReadStrict fills the struct behind into from a YAML file with the strictness of
// playbooks: unknown fields, wrong types and fields given twice are faults. It is
// for files that may hold secrets: no fault quotes a value, provided that the
// yaml.Unmarshalers in it do not. name is used in messages only.
func ReadStrict(name string, data []byte, into any) *Reading {
	d := &document{sheet: sheet{file: name}, what: "a configuration", discreet: true, places: map[string]*yaml.Node{}}
	if root := d.parse(data); root != nil {
		d.decode(root, reflect.ValueOf(into).Elem(), "")
	}
	return &Reading{document: d}
}

// Fault adds that something is wrong at a path, such as "targets[0].name", or with
// its absence. Where the right words are known, the nearest to what stands there is
// suggested. What is only a consequence of a fault of the form is left out.
func (r *Reading) Fault(path, problem, expected string, known ...string) {
	d := r.document
	if d.places[""] == nil || slices.ContainsFunc(d.unread, func(u string) bool { return within(path, u) || within(u, path) }) {
		return
	}
	n, stands := d.places[path]
	for above := path; n == nil; n = d.places[above] {
		above = above[:max(0, strings.LastIndexAny(above, ".["))]
	}
	f := Fault{File: d.file, Line: n.Line, Column: n.Column, Path: path, Problem: problem, Expected: expected}
	if stands && n.Kind == yaml.ScalarNode {
		f.Suggestion = spelling.Nearest(n.Value, known)
	}
	if !slices.Contains(d.faults, f) {
		d.faults = append(d.faults, f)
	}
}

// Err returns all faults as a *[LoadError], in the order of their places, or nil.
func (r *Reading) Err() error {
	if len(r.document.faults) == 0 {
		return nil
	}
	byPlace(r.document.faults, nil)
	return &LoadError{Faults: r.document.faults}
}

// within reports whether a path is another one or leads into it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}
