package playbooks

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/probes"
)

// Load checks and compiles playbooks and makes their probes, in the order of
// the files. It does no I/O. If anything is wrong with any of them it returns
// a *[LoadError] with every fault of all files.
func Load(catalog probes.Catalog, files ...File) ([]*Playbook, error) {
	var (
		playbooks []*Playbook
		faults    []Fault
		home      = map[string]string{} // playbook name to file
	)
	for _, f := range files {
		l := &loader{document: document{sheet: sheet{file: f.Name}, what: "a playbook"}, catalog: catalog}
		p := l.load(f)
		if p != nil && p.Name != "" {
			if first, dup := home[p.Name]; dup {
				l.turn(l.head)
				l.add(l.name, "name", fmt.Sprintf("duplicate playbook %q, also in %s", p.Name, first), "a name of its own")
			} else {
				home[p.Name] = f.Name
			}
		}
		byPlace(l.faults, l.names())
		faults = append(faults, l.faults...)
		playbooks = append(playbooks, p)
	}
	if len(faults) > 0 {
		return nil, &LoadError{Faults: faults}
	}
	return playbooks, nil
}

// The words that name things. Ids of steps stand in conditions, so they are
// identifiers there.
var (
	stepID   = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	dashedID = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
)

// loader turns one file, with its parts, into a playbook.
type loader struct {
	document
	catalog    probes.Catalog
	vocabulary *vocabulary
	name       *yaml.Node
	head       sheet
	parts      []sheet
}

// load returns nil, or a playbook that is not to be used, if there are faults.
func (l *loader) load(f File) *Playbook {
	root := l.parse(f.Data)
	l.head = l.sheet
	if root == nil || !l.is(root, yaml.MappingNode, "", "a mapping") || l.notMeant(root, IsPlaybook) {
		return nil
	}
	var file playbookFile
	l.decode(root, reflect.ValueOf(&file).Elem(), "")
	l.name = root
	p := &Playbook{
		Name:    l.id(root, file.Name, "name", dashedID, "lower-case words joined by dashes"),
		Title:   l.required(root, file.Title, "title"),
		Timeout: l.duration(root, file.Timeout, "timeout", 0),
		index:   map[string]int{},
	}
	if file.Name.set() {
		l.name = file.Name.node
	}
	all := l.gather(file, f.Parts)
	if len(all.steps) == 0 && !l.faulty("steps") {
		l.turn(l.head)
		l.add(root, "steps", "no steps", "at least one")
	}
	var stepFiles []stepFile
	for _, e := range all.steps {
		l.turn(e.sheet)
		s, f := l.step(e.node, e.path, p)
		stepFiles = append(stepFiles, f)
		p.Steps = append(p.Steps, s)
	}
	var err error
	if l.vocabulary, err = newVocabulary(p.Steps); err != nil {
		l.turn(l.head)
		l.add(root, "steps", err.Error(), "")
		return nil
	}
	p.vocabulary = l.vocabulary
	for i, e := range all.steps {
		l.turn(e.sheet)
		l.rules(e.node, stepFiles[i].Rules, e.path+".rules", p.Steps[i])
	}
	l.causes(all.causes, p)
	for _, e := range all.healthy {
		l.turn(e.sheet)
		p.Healthy = append(p.Healthy, l.vital(e.node, e.path))
	}
	for _, e := range all.remarks {
		l.turn(e.sheet)
		p.Remarks = append(p.Remarks, l.remark(e.node, e.path))
	}
	return p
}

// step reads a step without its rules, which need the vocabulary of all steps.
func (l *loader) step(n *yaml.Node, path string, p *Playbook) (*Step, stepFile) {
	var f stepFile
	l.decode(n, reflect.ValueOf(&f).Elem(), path)
	s := &Step{
		ID:      l.id(n, f.ID, path+".id", stepID, "a lower-case word, such as bloom"),
		Title:   l.required(n, f.Title, path+".title"),
		Kind:    l.required(n, f.Probe, path+".probe"),
		Timeout: l.duration(n, f.Timeout, path+".timeout", p.Timeout),
		guard:   newGuard(),
	}
	if p.Timeout > 0 && s.Timeout > p.Timeout {
		l.add(f.Timeout.node, path+".timeout", fmt.Sprintf("step may run for %s, longer than the playbook", s.Timeout), "at most "+p.Timeout.String())
	}
	if reserved(s.ID) {
		l.add(f.ID.node, path+".id", fmt.Sprintf("step id %q is a word of the condition language", s.ID), "another word")
	}
	if _, dup := p.index[s.ID]; dup {
		l.add(f.ID.node, path+".id", fmt.Sprintf("duplicate step %q", s.ID), "an id of its own")
	} else if s.ID != "" {
		p.index[s.ID] = len(p.Steps)
	}
	if s.Kind != "" {
		l.bind(s, f, path)
	}
	return s, f
}

// reserved says whether CEL keeps a word to itself.
func reserved(word string) bool {
	switch word {
	case "known", "measured", "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
		"import", "let", "loop", "package", "namespace", "return", "var", "void", "while":
		return true
	}
	return false
}

// errOptions is what a kind of probe gets to see of faults in its options: the
// faults themselves go to the report of the file.
var errOptions = errors.New("bad options")

// bind makes the step's probe.
func (l *loader) bind(s *Step, f stepFile, path string) {
	kind, known := l.catalog[s.Kind]
	if !known {
		names := slices.Sorted(maps.Keys(l.catalog))
		l.addWord(f.Probe.node, path+".probe", fmt.Sprintf("unknown probe %q", s.Kind), "one of "+strings.Join(names, ", "), names)
		return
	}
	s.Facts, s.tables = kind.Facts, kind.Tables
	before, decoded := len(l.faults), false
	probe, err := kind.New(func(options any) error {
		decoded = true
		v := reflect.ValueOf(options)
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return fmt.Errorf("options of probe %q: want a pointer, got %T", s.Kind, options)
		}
		if f.With == nil {
			return nil
		}
		l.decode(f.With, v.Elem(), path+".with")
		if len(l.faults) > before {
			return errOptions
		}
		return nil
	})
	place := f.Probe.node
	if f.With != nil {
		place = f.With
	}
	switch {
	case len(l.faults) > before: // said already
	case err != nil:
		l.add(place, path+".with", err.Error(), "")
	case f.With != nil && !decoded:
		l.add(f.With, path+".with", fmt.Sprintf("probe %q takes no options", s.Kind), "")
	case probe == nil:
		l.add(place, path+".probe", fmt.Sprintf("probe %q could not be made", s.Kind), "")
	}
	s.probe = probe
}

// rules reads the rules of a step.
func (l *loader) rules(step *yaml.Node, nodes []*yaml.Node, path string, s *Step) {
	if len(nodes) == 0 {
		if !l.faulty(path) {
			l.add(step, path, "no rules", "at least one, the last without a condition")
		}
		return
	}
	always := -1
	for i, n := range nodes {
		path := fmt.Sprintf("%s[%d]", path, i)
		var f ruleFile
		l.decode(n, reflect.ValueOf(&f).Elem(), path)
		if always >= 0 {
			l.add(n, path, fmt.Sprintf("can never be reached: rules[%d] has no condition", always), "a rule without a condition to be the last")
		}
		r := Rule{place: l.place(n)}
		if word := l.required(n, f.Status, path+".status"); word != "" {
			l.status(&r, f.Status, path)
		}
		if f.When.set() {
			r.When = l.firm(f.When, path+".when", s.ID)
		} else {
			always = i
		}
		r.Because = l.words(f.Because, path+".because", s.ID)
		r.Summary = l.summary(n, f.Summary, path+".summary", s.ID)
		s.Rules = append(s.Rules, r)
	}
}

// notLookedAt is the status of a layer of which nothing is there to be looked at.
const notLookedAt = "not-looked-at"

// status reads the status that a rule gives.
func (l *loader) status(r *Rule, t text, path string) {
	if t.Value == notLookedAt {
		return // Unknown
	}
	if err := r.Status.UnmarshalText([]byte(t.Value)); err != nil || r.Status == Unknown {
		words := []string{OK.String(), Warning.String(), Critical.String(), notLookedAt}
		l.addWord(t.node, path+".status", fmt.Sprintf("unknown status %q", t.Value), "ok, warning, critical or "+notLookedAt, words)
	}
}

// firm compiles a condition that may judge: it must not be decided by what nobody
// has measured.
func (l *loader) firm(t text, path, scope string) *Condition {
	c := l.condition(t, path, scope)
	if c != nil && c.measures {
		l.add(t.node, path, "measured() is no where reading failed, which would then judge", "known(), or measured() in a limit or a remark")
	}
	return c
}

// condition compiles a condition, or returns nil after noting its faults.
func (l *loader) condition(t text, path, scope string) *Condition {
	c, slips := l.vocabulary.compile(t.Value, scope)
	l.addSlips(t, path, withoutEchoes(slips))
	return c
}

// summary compiles a summary, or returns nil after noting its faults.
func (l *loader) summary(owner *yaml.Node, t text, path, scope string) *Template {
	if l.required(owner, t, path) == "" {
		return nil
	}
	c, slips := l.vocabulary.template(t.Value, scope)
	l.addSlips(t, path, withoutEchoes(slips))
	return c
}

// words compiles a sentence that may be left out.
func (l *loader) words(t text, path, scope string) *Template {
	if !t.set() {
		return nil
	}
	return l.summary(t.node, t, path, scope)
}

func withoutEchoes(slips []slip) []slip {
	return slices.DeleteFunc(slips, func(s slip) bool { return s.echo })
}

// id returns a text that must be there and of a form.
func (l *loader) id(owner *yaml.Node, t text, path string, form *regexp.Regexp, expected string) string {
	word := l.required(owner, t, path)
	if word != "" && !form.MatchString(word) {
		l.add(t.node, path, fmt.Sprintf("bad name %q", word), expected)
	}
	return word
}

// duration returns a positive duration. Without a fallback it must be there.
func (l *loader) duration(owner *yaml.Node, t text, path string, fallback time.Duration) time.Duration {
	if !t.set() && (fallback > 0 || path != "timeout") {
		return fallback
	}
	word := l.required(owner, t, path)
	if word == "" {
		return 0
	}
	d, err := time.ParseDuration(word)
	if err != nil || d <= 0 || d > time.Hour {
		l.add(t.node, path, fmt.Sprintf("bad duration %q", word), "a positive duration of at most 1h, such as 10s")
		return 0
	}
	return d
}
