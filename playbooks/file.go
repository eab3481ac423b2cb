package playbooks

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
)

// File is one playbook, or one file of its tests, as written.
type File struct {
	// Name is used in messages only.
	Name string
	Data []byte
	// Parts are the files that Data names under "parts", in that order: a long
	// playbook is written in several files, each with the steps and causes of one
	// layer.
	Parts []File
}

// Files reads the files of fsys that match the patterns (see [fs.Glob]), in
// the order of the patterns, and the parts of each. A pattern that matches
// nothing is an error, and so is a part that is not there.
func Files(fsys fs.FS, patterns ...string) ([]File, error) {
	var files []File
	for _, pattern := range patterns {
		names, err := fs.Glob(fsys, pattern)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("playbook %q: %w", pattern, fs.ErrNotExist)
		}
		for _, name := range names {
			f, err := readFile(name, path.Dir(name), func(name string) ([]byte, error) { return fs.ReadFile(fsys, name) }, path.Join)
			if err != nil {
				return nil, fmt.Errorf("playbook: %w", err)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// ReadFile reads a playbook and its parts by a func that reads one file.
func ReadFile(name string, read func(name string) ([]byte, error)) (File, error) {
	name = filepath.Clean(name)
	return readFile(name, filepath.Dir(name), read, filepath.Join)
}

// readFile reads a file and the parts that it names, which lie in its folder or
// below it.
func readFile(name, dir string, read func(string) ([]byte, error), join func(...string) string) (File, error) {
	data, err := read(name)
	if err != nil {
		return File{}, err
	}
	f := File{Name: name, Data: data}
	var missing []error
	for _, part := range partsOf(data) {
		if !fs.ValidPath(part) {
			missing = append(missing, fmt.Errorf("playbook %s: parts: %q is no path below the folder of the playbook, such as name/redis.yaml", name, part))
			continue
		}
		partName := join(dir, filepath.FromSlash(part))
		data, err := read(partName)
		if err != nil {
			missing = append(missing, fmt.Errorf("playbook %s: part: %w", name, err))
			continue
		}
		f.Parts = append(f.Parts, File{Name: partName, Data: data})
	}
	return f, errors.Join(missing...)
}

// NameOf is the name that a playbook gives itself; empty where that cannot be read. It
// is much quicker than Load, which says what is wrong.
func NameOf(f File) string {
	root := new(document).parse(f.Data)
	if root == nil {
		return ""
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "name" {
			return root.Content[i+1].Value
		}
	}
	return ""
}

// partsOf returns what a playbook names under "parts", as far as it can be read:
// Load says what is wrong with it.
func partsOf(data []byte) (parts []string) {
	root := new(document).parse(data)
	if root == nil {
		return nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "parts" {
			continue
		}
		for _, part := range root.Content[i+1].Content {
			parts = append(parts, part.Value)
		}
	}
	return parts
}
