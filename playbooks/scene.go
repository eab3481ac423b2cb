package playbooks

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/probes"
)

// scene is the evidence of a test by step.
type scene map[string]Measurement

// measurements returns the scene in a fixed order.
func (s scene) measurements() []Measurement {
	ms := make([]Measurement, 0, len(s))
	for _, step := range slices.Sorted(maps.Keys(s)) {
		ms = append(ms, s[step])
	}
	return ms
}

// The words of evidence that are no facts.
const (
	wordError   = "error"   // says why the whole step was not measured
	wordUnknown = "unknown" // for a fact that was not measured
	wordMoot    = "moot"    // for a fact that there is nothing to measure for
	wordAbsent  = "absent"  // for a fact that is not to be had here
)

const factValue = "a number, true, false, unknown, absent or moot"

// stage lays evidence as a test writes it over a scene:
//
//	redis: {ping_seconds: 0.3, reachable: true, hit_ratio: unknown}
//	shards: {error: timeout}
func (l *suiteLoader) stage(s scene, n *yaml.Node, path string) {
	l.entries(n, path, func(key, value *yaml.Node) {
		path := join(path, key.Value)
		i, known := l.suite.Playbook.index[key.Value]
		if !known {
			l.reference(text{Value: key.Value, node: key}, path, "step", l.suite.Playbook.vocabulary.steps)
			return
		}
		m := s[key.Value]
		m.Step = key.Value
		l.entries(value, path, func(key, value *yaml.Node) {
			l.fact(&m, l.suite.Playbook.Steps[i], key, value, join(path, key.Value))
		})
		s[m.Step] = m
	})
}

// fact lays one fact over a measurement.
func (l *suiteLoader) fact(m *Measurement, step *Step, key, value *yaml.Node, path string) {
	if !l.is(value, yaml.ScalarNode, path, factValue) {
		return
	}
	if key.Value == wordError {
		*m = Measurement{Step: step.ID, Err: l.required(value, text{Value: value.Value, node: value}, path)}
		return
	}
	i := slices.IndexFunc(step.Facts, func(d probes.FactDoc) bool { return d.Name == key.Value })
	if i < 0 {
		names := []string{wordError}
		for _, d := range step.Facts {
			names = append(names, d.Name)
		}
		l.addWord(key, path, fmt.Sprintf("unknown fact %q", key.Value), fmt.Sprintf("a fact that the probe %s documents", step.Kind), names)
		return
	}
	m.Err = ""
	forget(m, key.Value)
	e := &m.Evidence
	switch value.Value {
	case wordUnknown:
		return
	case wordMoot:
		e.Missing = append(e.Missing, probes.Missing{Facts: []string{key.Value}, Reason: "nothing to measure", Moot: true})
		return
	case wordAbsent:
		e.Missing = append(e.Missing, probes.Missing{Facts: []string{key.Value}, Reason: "not to be had here", Absent: true})
		return
	}
	f := probes.Fact{Name: key.Value, Unit: step.Facts[i].Unit}
	switch strings.ToLower(value.Value) {
	case "true":
		f.Value = 1
	case "false":
	default:
		v, err := strconv.ParseFloat(strings.ReplaceAll(value.Value, "_", ""), 64)
		if err != nil || !finite(v) {
			l.add(value, path, fmt.Sprintf("wrong type: %q", value.Value), factValue)
			return
		}
		f.Value = v
	}
	e.Facts = append(e.Facts, f)
}

// forget removes what a measurement says of a fact. Its slices may be those of
// the base, so they are copied.
func forget(m *Measurement, fact string) {
	m.Evidence.Facts = slices.DeleteFunc(slices.Clone(m.Evidence.Facts), func(f probes.Fact) bool { return f.Name == fact })
	var missing []probes.Missing
	for _, n := range m.Evidence.Missing {
		n.Facts = slices.DeleteFunc(slices.Clone(n.Facts), func(name string) bool { return name == fact })
		if len(n.Facts) > 0 {
			missing = append(missing, n)
		}
	}
	m.Evidence.Missing = missing
}
