package playbooks

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Suite is a file of unit tests of one playbook: evidence in, causes out.
type Suite struct {
	File     string
	Playbook *Playbook
	Cases    []*Case
}

// Case is one unit test.
type Case struct {
	Name string
	// Line is where the test stands in the file, from 1.
	Line         int
	Measurements []Measurement
	Expect       Expectation
}

// Surroundings are what a file of tests refers to by name.
type Surroundings struct {
	// Playbook returns the playbook under test.
	Playbook func(name string) (*Playbook, error)
	// Recording returns a recorded report.
	Recording func(path string) (Report, error)
}

// The shape of a file of tests.
type (
	suiteFile struct {
		Playbook text         `yaml:"playbook"`
		Base     *yaml.Node   `yaml:"base"`
		Tests    []*yaml.Node `yaml:"tests"`
	}
	testFile struct {
		Name      text       `yaml:"name"`
		Recording text       `yaml:"recording"`
		Evidence  *yaml.Node `yaml:"evidence"`
		Expect    *yaml.Node `yaml:"expect"`
	}
	expectFile struct {
		Verdict    text            `yaml:"verdict"`
		Causes     []text          `yaml:"causes"`
		Roots      []text          `yaml:"roots"`
		Confidence map[string]text `yaml:"confidence"`
		RuledOut   []text          `yaml:"ruled_out"`
		Gaps       []text          `yaml:"gaps"`
		Status     map[string]text `yaml:"status"`
	}
)

// suiteLoader turns one file into a suite.
type suiteLoader struct {
	document
	around Surroundings
	suite  *Suite
}

// LoadSuite reads a file of unit tests. If anything is wrong with it, it
// returns a *[LoadError] with every fault; if the playbook cannot be had, what
// Surroundings said of it. The package documentation describes the file.
func LoadSuite(f File, around Surroundings) (*Suite, error) {
	l := &suiteLoader{document: document{sheet: sheet{file: f.Name}, what: "tests of a playbook"}, around: around, suite: &Suite{File: f.Name}}
	err := l.load(f.Data)
	if len(l.faults) > 0 {
		byPlace(l.faults, nil)
		return nil, &LoadError{Faults: l.faults}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return l.suite, nil
}

// load returns an error that is none of the file's.
func (l *suiteLoader) load(data []byte) error {
	root := l.parse(data)
	if root == nil || !l.is(root, yaml.MappingNode, "", "a mapping") || l.notMeant(root, IsTests) {
		return nil
	}
	var file suiteFile
	l.decode(root, reflect.ValueOf(&file).Elem(), "")
	name := l.required(root, file.Playbook, "playbook")
	if len(file.Tests) == 0 && !l.faulty("tests") {
		l.add(root, "tests", "no tests", "at least one")
	}
	if name == "" {
		return nil // without the playbook nothing below can be told right from wrong
	}
	p, err := l.around.Playbook(name)
	if err != nil {
		return fmt.Errorf("playbook %q: %w", name, err)
	}
	l.suite.Playbook = p
	base := scene{}
	if file.Base != nil {
		l.stage(base, file.Base, "base")
	}
	lines := map[string]int{}
	for i, n := range file.Tests {
		c := l.test(n, base, fmt.Sprintf("tests[%d]", i))
		if first, twice := lines[c.Name]; twice && c.Name != "" {
			l.add(n, fmt.Sprintf("tests[%d].name", i), fmt.Sprintf("duplicate test %q, also in line %d", c.Name, first), "a name of its own")
		}
		lines[c.Name] = n.Line
		l.suite.Cases = append(l.suite.Cases, c)
	}
	return nil
}

// test reads one test.
func (l *suiteLoader) test(n *yaml.Node, base scene, path string) *Case {
	var f testFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	c := &Case{Name: l.required(n, f.Name, path+".name"), Line: n.Line}
	seen := maps.Clone(base)
	if f.Recording.set() {
		seen = scene{}
		recorded, err := l.around.Recording(f.Recording.Value)
		if err != nil {
			l.add(f.Recording.node, path+".recording", err.Error(), "")
		}
		for _, m := range recorded.Measurements() {
			seen[m.Step] = m
		}
	}
	if f.Evidence != nil {
		l.stage(seen, f.Evidence, path+".evidence")
	}
	c.Measurements = seen.measurements()
	if f.Expect == nil {
		if !l.faulty(path + ".expect") {
			l.add(n, path+".expect", "missing", "what the evidence must come to")
		}
		return c
	}
	c.Expect = l.expect(f.Expect, path+".expect")
	return c
}

// expect reads what a test expects.
func (l *suiteLoader) expect(n *yaml.Node, path string) Expectation {
	var f expectFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	var e Expectation
	if f.Verdict.set() {
		e.Verdict = Verdict(f.Verdict.Value)
		l.reference(f.Verdict, path+".verdict", "verdict", []string{string(CauseFound), string(Healthy), string(Inconclusive)})
	}
	e.Causes = l.causeIDs(f.Causes, path+".causes")
	e.Roots = l.causeIDs(f.Roots, path+".roots")
	e.RuledOut = l.causeIDs(f.RuledOut, path+".ruled_out")
	for _, t := range f.Gaps {
		e.Gaps = append(e.Gaps, t.Value)
	}
	for id, t := range f.Confidence {
		l.reference(text{Value: id, node: l.keyOf(n, "confidence", id)}, path+".confidence", "cause", l.ids())
		l.reference(t, path+".confidence."+id, "confidence", []string{string(High), string(Medium), string(Low)})
		e.Confidence = append(e.Confidence, Confident{ID: id, Level: Confidence(t.Value)})
	}
	slices.SortFunc(e.Confidence, func(a, b Confident) int { return strings.Compare(a.ID, b.ID) })
	for step, t := range f.Status {
		l.reference(text{Value: step, node: l.keyOf(n, "status", step)}, path+".status", "step", l.suite.Playbook.vocabulary.steps)
		s := Stated{Step: step}
		if s.Status.UnmarshalText([]byte(t.Value)) != nil {
			l.reference(t, path+".status."+step, "status", []string{OK.String(), Warning.String(), Critical.String(), Unknown.String()})
		}
		e.Status = append(e.Status, s)
	}
	slices.SortFunc(e.Status, func(a, b Stated) int { return strings.Compare(a.Step, b.Step) })
	if e.empty() && !l.faultyBelow(path) {
		l.add(n, path, "expects nothing", "at least one of verdict, causes, roots, confidence, ruled_out, gaps, status")
	}
	return e
}

// causeIDs reads ids of causes; nil says that none were asked for.
func (l *suiteLoader) causeIDs(texts []text, path string) []string {
	if texts == nil {
		return nil
	}
	ids := make([]string, len(texts))
	for i, t := range texts {
		l.reference(t, fmt.Sprintf("%s[%d]", path, i), "cause", l.ids())
		ids[i] = t.Value
	}
	return ids
}

func (l *suiteLoader) ids() []string {
	var ids []string
	for _, h := range l.suite.Playbook.Causes {
		ids = append(ids, h.ID)
	}
	return ids
}

// keyOf returns the node of a key in the mapping under a field of n.
func (l *suiteLoader) keyOf(n *yaml.Node, field, key string) *yaml.Node {
	under := n
	for _, word := range []string{field, key} {
		i := 0
		for i+1 < len(under.Content) && under.Content[i].Value != word {
			i += 2
		}
		if i+1 >= len(under.Content) {
			return n
		}
		n, under = under.Content[i], under.Content[i+1]
	}
	return n
}
