package playbooks_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// options are those of a probe with all sorts of them.
type options struct {
	URL     string        `yaml:"url"`
	Wait    time.Duration `yaml:"wait"`
	Canary  canaryOptions `yaml:"canary"`
	Targets []string      `yaml:"targets"`
	hidden  int
}

type canaryOptions struct {
	Names int     `yaml:"names"`
	Level float64 `yaml:"level"`
	On    bool    `yaml:"on"`
}

// tuned is a kind of probe with options; a URL without a scheme is refused by
// the probe itself.
func tuned() probes.Kind {
	k := kind("x", check(nothing))
	k.New = func(decode func(any) error) (probes.Probe, error) {
		o := options{URL: "http://default", Canary: canaryOptions{Names: 1500}}
		if err := decode(&o); err != nil {
			return nil, err
		}
		if !strings.Contains(o.URL, "://") || o.hidden != 0 {
			return nil, errors.New("url without a scheme")
		}
		return check(nothing), nil
	}
	k.Tables = []string{"rows"}
	return k
}

// TestBadFiles loads every file of testdata/bad, which holds one fault each.
// The comment lines at its end are the exact message.
func TestBadFiles(t *testing.T) {
	c := smallCatalog()
	c["tuned"] = tuned()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 40 {
		t.Fatalf("%d bad files, want all of them", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.SplitSeq(string(data), "\n") {
				if w, ok := strings.CutPrefix(line, "#> "); ok {
					want = append(want, w)
				}
			}
			if *update {
				body, _, _ := strings.Cut(string(data), "#> ")
				_, err := playbooks.Load(c, playbooks.File{Name: filepath.Base(file), Data: []byte(body)})
				if err == nil {
					t.Fatal("loads")
				}
				text := strings.TrimRight(body, "\n") + "\n#> " + strings.ReplaceAll(err.Error(), "\n", "\n#> ") + "\n"
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			_, err = playbooks.Load(c, playbooks.File{Name: filepath.Base(file), Data: data})
			if err == nil {
				t.Fatalf("loads, want %q", want)
			}
			if got := err.Error(); got != strings.Join(want, "\n") {
				t.Errorf("got  %s\nwant %s", got, strings.Join(want, "\n"))
			}
		})
	}
}

// TestAllFaultsAtOnce: nothing hides behind something else, over all files.
func TestAllFaultsAtOnce(t *testing.T) {
	bad := strings.NewReplacer("a.x > 10", "a.xx > 10", "status: warning", "status: warn", "explains: [shallow]", "explains: [shalow]").Replace(small)
	_, err := playbooks.Load(smallCatalog(), playbooks.File{Name: "one.yaml", Data: []byte(bad)}, playbooks.File{Name: "two.yaml"}, playbooks.File{Name: "three.yaml", Data: []byte(small)}, playbooks.File{Name: "four.yaml", Data: []byte(small)})
	if _, ok := errors.AsType[*playbooks.LoadError](err); !ok {
		t.Fatalf("got %v, want a LoadError", err)
	}
	want := []string{
		`one.yaml:10:34: steps[0].rules[0].when: unknown fact "a.xx"; did you mean "a.x"?`,
		`one.yaml:11:18: steps[0].rules[1].status: unknown status "warn"; expected ok, warning, critical or not-looked-at; did you mean "warning"?`,
		`one.yaml:18:18: steps[1].rules[1].status: unknown status "warn"; expected ok, warning, critical or not-looked-at; did you mean "warning"?`,
		`one.yaml:26:12: causes[0].when[0]: unknown fact "a.xx"; did you mean "a.x"?`,
		`one.yaml:28:16: causes[0].explains[0]: unknown cause "shalow"; expected one of deep, shallow; did you mean "shallow"?`,
		`two.yaml:1:1: file is empty; expected a playbook`,
		`three.yaml:2:7: name: duplicate playbook "small", also in one.yaml; expected a name of its own`,
		`four.yaml:2:7: name: duplicate playbook "small", also in one.yaml; expected a name of its own`,
	}
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	var one playbooks.Fault
	if !errors.As(err, &one) || one.Line != 10 || one.Column != 34 {
		t.Errorf("first fault %+v, want one.yaml:10:34", one)
	}
}

func TestOptionsReachTheProbe(t *testing.T) {
	var got options
	c := smallCatalog()
	k := tuned()
	k.New = func(decode func(any) error) (probes.Probe, error) {
		got = options{URL: "default", Canary: canaryOptions{Names: 1500, On: true}}
		return check(nothing), decode(&got)
	}
	c["tuned"] = k
	load(t, c, tunedPlaybook("{wait: 1500ms, canary: {level: 0.5, on: false}, targets: [a, b]}"))
	if got.URL != "default" || got.Wait != 1500*time.Millisecond || got.Canary != (canaryOptions{Names: 1500, Level: 0.5}) || len(got.Targets) != 2 {
		t.Errorf("got %+v", got)
	}
}

func tunedPlaybook(with string) string {
	return "name: tuned\ntitle: T\ntimeout: 1s\nsteps:\n  - {id: a, title: A, probe: tuned, with: " + with + ", rules: [{status: ok, summary: fine}]}\n"
}

func TestDefaults(t *testing.T) {
	p := load(t, smallCatalog(), small)
	if p.Timeout != time.Second || p.Steps[0].Timeout != time.Second {
		t.Errorf("timeouts %s and %s, want 1s for both", p.Timeout, p.Steps[0].Timeout)
	}
	if s := p.Causes[1].Signals; s[0].Weight != 3 || s[1].Weight != 1 {
		t.Errorf("weights %+v, want 3 and 1", s)
	}
}
