package playbooks_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
)

// surroundings know the playbook "small.yaml" and one recording.
func surroundings(t testing.TB) playbooks.Surroundings {
	t.Helper()
	p := load(t, smallCatalog(), small)
	return playbooks.Surroundings{
		Playbook: func(name string) (*playbooks.Playbook, error) {
			if name != "small.yaml" {
				return nil, os.ErrNotExist
			}
			return p, nil
		},
		Recording: func(path string) (playbooks.Report, error) {
			if path != "deep.json" {
				return playbooks.Report{}, os.ErrNotExist
			}
			return playbooks.Judge(p, []playbooks.Measurement{
				saw("a", "x", 11.0, "y", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0), saw("of_old", "x", 1.0),
			}), nil
		},
	}
}

func suite(t testing.TB, text string) (*playbooks.Suite, error) {
	t.Helper()
	return playbooks.LoadSuite(playbooks.File{Name: "small_test.yaml", Data: []byte(text)}, surroundings(t))
}

// run returns what each case of a suite differs by.
func run(s *playbooks.Suite) map[string][]string {
	byName := map[string][]string{}
	for _, c := range s.Cases {
		byName[c.Name] = c.Expect.Check(playbooks.Judge(s.Playbook, c.Measurements))
	}
	return byName
}

// TestShippedSuites runs the unit tests of every shipped playbook; they must
// reach all its causes and rules.
func TestShippedSuites(t *testing.T) {
	files, err := playbooks.BuiltinTests()
	if err != nil {
		t.Fatal(err)
	}
	byFile := map[string]*playbooks.Playbook{}
	sources, err := playbooks.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range shipped(t) {
		byFile[path.Base(sources[i].Name)] = p
	}
	for _, f := range files {
		s, err := playbooks.LoadSuite(f, playbooks.Surroundings{
			Playbook: func(name string) (*playbooks.Playbook, error) { return byFile[name], nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, differences := range run(s) {
			if len(differences) > 0 {
				t.Errorf("%s: %s:\n%s", f.Name, name, strings.Join(differences, "\n"))
			}
		}
		coverage := playbooks.NewCoverage(s.Playbook)
		for _, c := range s.Cases {
			coverage.Add(c.Measurements)
		}
		for _, m := range coverage.Missed() {
			t.Errorf("not reached by any test: %s", m)
		}
		delete(byFile, strings.TrimSuffix(path.Base(f.Name), playbooks.TestSuffix)+".yaml")
	}
	for name := range byFile {
		t.Errorf("%s is shipped without unit tests", name)
	}
}

// good shows every form of a test that passes.
const good = `
playbook: small.yaml
base:
  a: {x: 1, y: 1}
  b: {x: 1, y: 1, z: false}
tests:
  - name: well
    expect: {verdict: healthy, causes: [], status: {a: ok, b: ok}, ruled_out: [deep, shallow]}
  - name: laid over the base
    evidence:
      a: {x: 1_1.0}
      b: {y: 11}
    expect: {verdict: cause-found, causes: [deep, shallow], roots: [deep], confidence: {deep: high, shallow: low}}
  - name: taken from the base
    evidence:
      a: {x: unknown}
    expect: {verdict: inconclusive, gaps: ["a: not reported by the probe (a.x"], status: {a: unknown}}
  - name: a step that could not be measured
    evidence: {b: {error: connection refused}}
    expect: {gaps: ["b: connection refused"], status: {b: unknown}}
  - name: nothing to measure
    evidence: {a: {z: moot}, b: {z: moot}}
    expect: {verdict: healthy, ruled_out: [deep]}
  - name: from a recording
    recording: deep.json
    expect: {causes: [deep, shallow], gaps: [of_old]}
  - name: laid over a recording
    recording: deep.json
    evidence: {a: {x: 1}, b: {error: gone}}
    expect: {causes: [], gaps: ["b: gone"]}
  - name: error and then facts
    recording: deep.json
    evidence: {b: {error: gone, z: true}}
    expect: {ruled_out: [deep]}
`

func TestSuite(t *testing.T) {
	s, err := suite(t, good)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cases) != 8 || s.Cases[1].Line != 9 || s.Cases[1].Name != "laid over the base" {
		t.Errorf("got %d cases, the second %+v", len(s.Cases), s.Cases[1])
	}
	for name, differences := range run(s) {
		if len(differences) > 0 {
			t.Errorf("%s:\n%s", name, strings.Join(differences, "\n"))
		}
	}
}

// TestDifferences: a test that fails says what is otherwise, and why.
func TestDifferences(t *testing.T) {
	base := good[:strings.Index(good, "tests:")]
	f := func(evidence, expect string, want ...string) {
		t.Helper()
		s, err := suite(t, base+"tests:\n  - {name: one, evidence: "+evidence+", expect: "+expect+"}\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := run(s)["one"]; !slices.Equal(got, want) {
			t.Errorf("%s, %s:\n got %q\nwant %q", evidence, expect, got, want)
		}
	}
	f("{}", "{verdict: cause-found}",
		"verdict: got healthy, want cause-found",
		"    Nothing is wrong: Layer A and Layer B are within bounds, and every known cause is ruled out.")
	f("{}", "{causes: [deep]}",
		"causes: got none, want deep",
		"    deep is ruled out: not so: a.x (1) > 10")
	f("{a: {x: 11}}", "{causes: [], roots: [shallow], ruled_out: [deep]}",
		"causes: got deep, want none",
		"    deep is a root at confidence high, by:", "      a.x = 11",
		"roots: got deep, want shallow",
		"    shallow is ruled out: not so: b.y (1) > 10",
		"    deep is a root at confidence high, by:", "      a.x = 11",
		"ruled out: want deep",
		"    deep is a root at confidence high, by:", "      a.x = 11")
	f("{b: {y: unknown}}", "{causes: [shallow], confidence: {shallow: high}}",
		"causes: got none, want shallow",
		"    shallow is neither shown nor ruled out", "      for want of b.y",
		"confidence of shallow: want high, but it is no cause",
		"    shallow is neither shown nor ruled out", "      for want of b.y")
	f("{b: {y: 11, x: unknown}}", "{confidence: {shallow: high}}",
		"confidence of shallow: got low, want high",
		"    speaks against it (weight 3): a.y (1) > 10",
		"    unknown (weight 1): b.x (unknown) > 10")
	f("{a: {z: 0}, b: {error: gone}}", "{gaps: [a.x], status: {b: ok}}",
		`gaps: want one with "a.x", got 2`,
		"    b: gone", "    b: neither shown nor ruled out: shallow (b.y)",
		"status of b: got unknown, want ok",
		"    Could not be measured: gone.")
}

func TestCoverage(t *testing.T) {
	s, err := suite(t, good)
	if err != nil {
		t.Fatal(err)
	}
	coverage := playbooks.NewCoverage(s.Playbook)
	missed := func() string { return strings.Join(coverage.Missed(), "\n") }
	if got := len(coverage.Missed()); got != 8 {
		t.Errorf("without a test: %d missed, want 6 rules and 2 causes:\n%s", got, missed())
	}
	for _, c := range s.Cases {
		coverage.Add(c.Measurements)
	}
	want := "test.yaml:17: step b, rules[0], ok when b.x < 0"
	if got := missed(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	dead := saw("b", "x", -1.0)
	dead.Err = "gone"
	if coverage.Add([]playbooks.Measurement{dead}); missed() != want {
		t.Errorf("facts of a step that failed reach a rule")
	}
	if coverage.Add([]playbooks.Measurement{saw("b", "x", -1.0)}); missed() != "" {
		t.Errorf("got %s, want nothing", missed())
	}
}

// TestBadSuites loads every file of testdata/bad-tests; its comment lines at
// the end are the exact message.
func TestBadSuites(t *testing.T) {
	files, err := filepath.Glob("testdata/bad-tests/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body, rest, _ := strings.Cut(string(data), "#> ")
		_, err = playbooks.LoadSuite(playbooks.File{Name: filepath.Base(file), Data: []byte(body)}, surroundings(t))
		if _, ok := errors.AsType[*playbooks.LoadError](err); !ok {
			t.Errorf("%s: got %v, want faults", file, err)
			continue
		}
		if *update {
			text := strings.TrimRight(body, "\n") + "\n#> " + strings.ReplaceAll(err.Error(), "\n", "\n#> ") + "\n"
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want := strings.ReplaceAll(strings.TrimSuffix(rest, "\n"), "\n#> ", "\n"); err.Error() != want {
			t.Errorf("%s:\ngot\n%v\nwant\n%s", file, err, want)
		}
	}
}

func TestSuiteWithoutItsPlaybook(t *testing.T) {
	_, err := suite(t, "playbook: gone.yaml\ntests: [{name: one, expect: {causes: []}}]\n")
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), `small_test.yaml: playbook "gone.yaml"`) {
		t.Errorf("got %v", err)
	}
}

// FuzzLoadSuite loads arbitrary tests, runs what loads, and needs a place for
// every fault of what does not.
func FuzzLoadSuite(f *testing.F) {
	f.Add([]byte(good))
	bad, err := playbooks.Files(os.DirFS("testdata/bad-tests"), "*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range bad {
		f.Add(file.Data)
	}
	around := surroundings(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := playbooks.LoadSuite(playbooks.File{Name: "fuzz.yaml", Data: data}, around)
		if err == nil {
			run(s)
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if line == "" {
				t.Fatalf("empty line in %q", err)
			}
		}
	})
}
