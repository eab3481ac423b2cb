package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// loadPlaybooks returns the built-in playbooks and those in the given files, by
// name; a file replaces a built-in playbook of the same name.
func loadPlaybooks(catalog probes.Catalog, paths []string) (map[string]*playbooks.Playbook, error) {
	builtin, err := playbooks.Builtin()
	if err != nil {
		return nil, err
	}
	var own []playbooks.File
	for _, path := range paths {
		f, err := readPlaybook(path)
		if err != nil {
			return nil, fmt.Errorf("read playbook: %w", err)
		}
		own = append(own, f)
	}
	byName := map[string]*playbooks.Playbook{}
	for _, files := range [][]playbooks.File{builtin, own} {
		loaded, err := playbooks.Load(catalog, files...)
		if err != nil {
			return nil, err
		}
		for _, p := range loaded {
			byName[p.Name] = p
		}
	}
	return byName, nil
}

// pick returns the playbook of that name.
func pick(byName map[string]*playbooks.Playbook, name string) (*playbooks.Playbook, error) {
	if p, ok := byName[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("unknown playbook %q: %s", name, shell.OneOf(name, slices.Sorted(maps.Keys(byName))))
}
