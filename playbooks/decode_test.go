package playbooks_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// TestDecodeStrict: every fault at once, and no value of a file that may hold
// secrets in any of them.
func TestDecodeStrict(t *testing.T) {
	type target struct {
		URL  string        `yaml:"url"`
		Wait time.Duration `yaml:"wait"`
	}
	var got struct {
		Token   string            `yaml:"token"`
		Port    int               `yaml:"port"`
		Targets map[string]target `yaml:"targets"`
	}
	if err := playbooks.DecodeStrict("c.yaml", []byte("token: t\nport: 1\ntargets: {a: {url: u, wait: 2s}}\n"), &got); err != nil {
		t.Fatal(err)
	}
	if got.Token != "t" || got.Port != 1 || got.Targets["a"] != (target{URL: "u", Wait: 2 * time.Second}) {
		t.Errorf("got %+v", got)
	}
	err := playbooks.DecodeStrict("c.yaml", []byte("token: [s3cret]\nport: s3cret\ntargets: {a: {ulr: s3cret, wait: s3cret}, a: {}}\n"), &got)
	want := []string{
		`c.yaml:1:8: token: wrong type: a list; expected text`,
		`c.yaml:2:7: port: wrong type: text; expected a whole number`,
		`c.yaml:3:15: targets.a: unknown field "ulr"; expected one of url, wait; did you mean "url"?`,
		`c.yaml:3:34: targets.a.wait: wrong type: text; expected a duration such as 500ms or 10s`,
		`c.yaml:3:43: targets: field "a" is given twice`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

// TestReading: what a reader finds out of the values stands beside the faults of the
// form, at its place or at that of what it is missing from; consequences are left out.
func TestReading(t *testing.T) {
	type item struct {
		Name string `yaml:"name"`
		Kind string `yaml:"kind"`
	}
	var got struct {
		On    bool   `yaml:"on"`
		Items []item `yaml:"items"`
		Size  int    `yaml:"size"`
	}
	r := playbooks.ReadStrict("c.yaml", []byte("items:\n  - {name: a, kind: shalow}\n  - {nam: b}\n  - kind: deep\nsize: big\non: 1.5\n"), &got)
	for i := range got.Items {
		path := "items[" + strconv.Itoa(i) + "]"
		if got.Items[i].Name == "" {
			r.Fault(path+".name", "is needed", "a name")
			r.Fault(path+".name", "is needed", "a name")
		}
	}
	r.Fault("items[0].kind", "unknown kind", "deep or shallow", "deep", "shallow")
	r.Fault("size", "is too small", "")
	r.Fault("owner.name", "is needed", "")
	want := []string{
		`c.yaml:1:1: owner.name: is needed`,
		`c.yaml:2:21: items[0].kind: unknown kind; expected deep or shallow; did you mean "shallow"?`,
		`c.yaml:3:6: items[1]: unknown field "nam"; expected one of name, kind; did you mean "name"?`,
		`c.yaml:4:5: items[2].name: is needed; expected a name`,
		`c.yaml:5:7: size: wrong type: text; expected a whole number`,
		`c.yaml:6:5: on: wrong type: a number; expected true or false`,
	}
	if err := r.Err(); err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	broken := playbooks.ReadStrict("c.yaml", []byte("a: [\n"), &got)
	broken.Fault("items", "there is none", "")
	if err := broken.Err(); err == nil || strings.Contains(err.Error(), "there is none") {
		t.Errorf("of a file that is no YAML: got %v, want that alone", err)
	}
}
