package playbooks_test

import (
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
