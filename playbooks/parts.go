package playbooks

import (
	"fmt"
	"reflect"

	"gopkg.in/yaml.v3"
)

// entry is one element of a list in a file: a step, a cause.
type entry struct {
	node  *yaml.Node
	path  string // within its file
	sheet sheet
}

// contents is what a playbook's files hold, the head first, the parts in order.
type contents struct {
	steps, causes, healthy, remarks []entry
}

// gather collects what the head and the parts hold. Parts that could not be
// read were complained of when they were; one that the head names and the
// caller has not read is a fault.
func (l *loader) gather(head playbookFile, parts []File) contents {
	var all contents
	l.collect(&all, head.Rest)
	for i, t := range head.Parts {
		if i >= len(parts) {
			l.add(t.node, fmt.Sprintf("parts[%d]", i), fmt.Sprintf("part %q was not read", t.Value), "a file beside the playbook")
		}
	}
	for _, part := range parts {
		l.turn(sheet{file: part.Name})
		root := l.parse(part.Data)
		l.parts = append(l.parts, l.sheet)
		if root == nil || !l.is(root, yaml.MappingNode, "", "a mapping") {
			continue
		}
		var f partFile
		l.decode(root, reflect.ValueOf(&f).Elem(), "")
		l.collect(&all, f)
	}
	l.turn(l.head)
	return all
}

// collect adds the lists of the file at hand.
func (l *loader) collect(all *contents, f partFile) {
	for _, list := range []struct {
		name  string
		nodes []*yaml.Node
		into  *[]entry
	}{{"steps", f.Steps, &all.steps}, {"causes", f.Causes, &all.causes}, {"healthy", f.Healthy, &all.healthy}, {"remarks", f.Remarks, &all.remarks}} {
		for i, n := range list.nodes {
			*list.into = append(*list.into, entry{node: n, path: fmt.Sprintf("%s[%d]", list.name, i), sheet: l.sheet})
		}
	}
}

// turn goes on in another file: what is wrong from now on is placed there.
func (l *loader) turn(p sheet) { l.sheet = p }

// names lists the files in the order in which faults are told.
func (l *loader) names() []string {
	names := []string{l.head.file}
	for _, p := range l.parts {
		names = append(names, p.file)
	}
	return names
}
