package playbooks

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/playbooks/spelling"
)

// document is one YAML file while it is read: it collects every fault with its
// place. yaml.v3's own strict mode stops at lines and loses KnownFields as
// soon as a type has an UnmarshalYAML, so the tree is walked here.
type document struct {
	sheet

	// what the file should hold: "a playbook".
	what string
	// discreet keeps values out of faults, where they may be secrets.
	discreet bool
	faults   []Fault
	// places has where the value at each path stands, unless nil; unread are the
	// paths of values that could not be taken.
	places map[string]*yaml.Node
	unread []string
}

// sheet is the file that is being read: faults are placed in it.
type sheet struct {
	file  string
	lines []string
}

// text is a string that remembers where it stood, so that what is wrong inside
// it can be placed.
type text struct {
	Value string
	node  *yaml.Node
}

func (t text) set() bool { return t.node != nil }

// parse returns the file's only document, or nil after noting a fault.
func (d *document) parse(data []byte) *yaml.Node {
	d.lines = strings.Split(string(data), "\n")
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	var root, more yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		d.addAt(1, 1, "", "file is empty", d.what)
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	switch err := decoder.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
		return nil
	default:
		d.addAt(max(1, more.Line), max(1, more.Column), "", "a second document", d.what+", one a file")
		return nil
	}
	if len(root.Content) != 1 {
		d.addAt(1, 1, "", "file is empty", d.what)
		return nil
	}
	return root.Content[0]
}

// syntax notes an error of the YAML parser, which knows the line only.
func (d *document) syntax(err error) {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if rest, found := strings.CutPrefix(message, "line "); found {
		if number, what, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, message = max(1, n), what
			}
		}
	}
	d.addAt(line, 1, "", "not YAML: "+message, "")
}

func (d *document) addAt(line, column int, path, problem, expected string) {
	d.faults = append(d.faults, Fault{File: d.file, Line: line, Column: column, Path: path, Problem: problem, Expected: expected})
}

// add notes a fault at a node.
func (d *document) add(n *yaml.Node, path, problem, expected string) {
	d.addAt(n.Line, n.Column, path, problem, expected)
}

// refuse notes a fault at a node whose value is not taken for it.
func (d *document) refuse(n *yaml.Node, path, problem, expected string) {
	d.add(n, path, problem, expected)
	d.unread = append(d.unread, path)
}

// place says where a node stands.
func (d *document) place(n *yaml.Node) string { return fmt.Sprintf("%s:%d", d.file, n.Line) }

// addWord notes a word at a node that is none of the known, and the nearest.
func (d *document) addWord(n *yaml.Node, path, problem, expected string, known []string) {
	d.add(n, path, problem, expected)
	d.faults[len(d.faults)-1].Suggestion = spelling.Nearest(n.Value, known)
}

// addSlips notes what is wrong inside a text, at its place in the file.
func (d *document) addSlips(t text, path string, slips []slip) {
	for _, s := range slips {
		line, column := d.locate(t, s)
		d.addAt(line, column, path, s.problem, s.expected)
		d.faults[len(d.faults)-1].Suggestion = s.suggestion
	}
}

// locate finds a slip again in the file, whatever YAML style its text is
// written in: by the line it stands in or, where the style has reflowed the
// text, by the word. If both fail, the place of the text itself must do.
func (d *document) locate(t text, s slip) (line, column int) {
	content := strings.Split(t.Value, "\n")
	if s.line <= len(content) {
		if line, column, found := d.find(t.node, content[s.line-1], len(content)+1); found {
			return line, column + s.column
		}
	}
	if line, column, found := d.find(t.node, s.word, 20); found {
		return line, column
	}
	return t.node.Line, t.node.Column
}

// find looks for a string from a node on, in so many lines.
func (d *document) find(n *yaml.Node, wanted string, within int) (line, column int, found bool) {
	if wanted == "" {
		return 0, 0, false
	}
	for i := n.Line - 1; i < min(len(d.lines), n.Line-1+within); i++ {
		raw, skipped := []rune(d.lines[i]), 0
		if i == n.Line-1 {
			skipped = min(n.Column-1, len(raw))
		}
		if before, _, found := strings.Cut(string(raw[skipped:]), wanted); found {
			return i + 1, skipped + len([]rune(before)) + 1, true
		}
	}
	return 0, 0, false
}
