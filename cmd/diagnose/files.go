package main

import (
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/playbooks"
)

// readPlaybook reads a playbook and its parts.
func readPlaybook(path string) (playbooks.File, error) {
	return playbooks.ReadFile(path, shell.ReadText)
}

// filesBelow lists the files in a folder, at any depth, whose names end like that. Pipes
// and devices are none of them.
func filesBelow(folder, suffix string) (names []string, err error) {
	err = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&^fs.ModeSymlink == 0 && strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}
