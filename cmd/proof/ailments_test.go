package main

import (
	"bytes"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/playbooks"
)

// TestEveryCauseIsMade: every cause that is shipped is made in three ways at least, and
// there are enough services that are well, pairs, and agents that cannot see all.
func TestEveryCauseIsMade(t *testing.T) {
	t.Parallel()
	files, err := playbooks.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	variants := map[string]int{}
	for len(files) > 0 {
		f := files[0]
		files = append(files[1:], f.Parts...)
		var doc struct {
			Causes []struct {
				ID string `yaml:"id"`
			} `yaml:"causes"`
		}
		if err := yaml.NewDecoder(bytes.NewReader(f.Data)).Decode(&doc); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		for _, c := range doc.Causes {
			variants[c.ID] = 0
		}
	}
	if len(variants) == 0 {
		t.Fatal("no cause is shipped")
	}
	well, pairs, blind := 0, 0, 0
	for _, a := range ailments() {
		for _, c := range a.label.roots {
			if _, ok := variants[c]; !ok {
				t.Errorf("%s: no such cause is shipped", a)
			}
		}
		switch {
		case a.label.blind != "":
			blind++
		case len(a.label.roots) == 0:
			well++
		case len(a.label.roots) == 1:
			variants[a.label.roots[0]]++
		default:
			pairs++
		}
	}
	for id, n := range variants {
		if n < 3 {
			t.Errorf("%s is made in %d ways, want 3 at least", id, n)
		}
	}
	if well < 6 || pairs < 8 || blind < 10 {
		t.Errorf("%d are well, %d pairs, %d half-blind, want 6, 8 and 10 at least", well, pairs, blind)
	}
}
