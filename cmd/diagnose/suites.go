package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// suites loads files of playbook tests, and each playbook under test once.
type suites struct {
	catalog probes.Catalog
	loaded  map[string]*playbooks.Playbook // by path or built-in name
}

func newSuites() *suites {
	// Tests measure nothing, so the probes have no target.
	return &suites{catalog: (&target{}).catalog(), loaded: map[string]*playbooks.Playbook{}}
}

// builtin loads the tests of the built-in playbooks.
func (s *suites) builtin() ([]*playbooks.Suite, error) {
	files, err := playbooks.Builtin()
	if err != nil {
		return nil, err
	}
	tests, err := playbooks.BuiltinTests()
	if err != nil {
		return nil, err
	}
	around := playbooks.Surroundings{
		Playbook: func(name string) (*playbooks.Playbook, error) {
			for _, f := range files {
				if filepath.Base(f.Name) == name {
					return s.load(f)
				}
			}
			return nil, fs.ErrNotExist
		},
		Recording: func(string) (playbooks.Report, error) { return playbooks.Report{}, fs.ErrNotExist },
	}
	return s.all(tests, func(playbooks.File) playbooks.Surroundings { return around })
}

// paths loads the tests in files and, at any depth, in folders.
func (s *suites) paths(paths []string) ([]*playbooks.Suite, error) {
	var files []playbooks.File
	for _, path := range paths {
		names, err := testFiles(path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := shell.ReadText(name)
			if err != nil {
				return nil, fmt.Errorf("read tests: %w", err)
			}
			files = append(files, playbooks.File{Name: name, Data: data})
		}
	}
	return s.all(files, s.beside)
}

// beside resolves what a test file refers to from its own folder.
func (s *suites) beside(f playbooks.File) playbooks.Surroundings {
	dir := filepath.Dir(f.Name)
	return playbooks.Surroundings{
		Playbook: func(name string) (*playbooks.Playbook, error) {
			f, err := readPlaybook(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			return s.load(f)
		},
		Recording: func(path string) (playbooks.Report, error) { return readRecording(filepath.Join(dir, path)) },
	}
}

// load loads a playbook, once.
func (s *suites) load(f playbooks.File) (*playbooks.Playbook, error) {
	if p, ok := s.loaded[f.Name]; ok {
		return p, nil
	}
	ps, err := playbooks.Load(s.catalog, f)
	if err != nil {
		return nil, err
	}
	s.loaded[f.Name] = ps[0]
	return ps[0], nil
}

// all loads every file and returns the faults of all of them.
func (s *suites) all(files []playbooks.File, around func(playbooks.File) playbooks.Surroundings) ([]*playbooks.Suite, error) {
	var loaded []*playbooks.Suite
	var errs []error
	for _, f := range files {
		suite, err := playbooks.LoadSuite(f, around(f))
		loaded = append(loaded, suite)
		errs = append(errs, err)
	}
	return loaded, errors.Join(errs...)
}

// testFiles returns a file as it is, and of a folder the files of tests in it.
func testFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	if !info.IsDir() {
		return []string{filepath.Clean(path)}, nil
	}
	names, err := filesBelow(path, playbooks.TestSuffix)
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("read tests: no *%s in or below %s", playbooks.TestSuffix, path)
	}
	return names, nil
}
