package playbooks

import (
	"embed"
	"slices"
	"strings"
)

//go:embed builtin/*.yaml builtin/*/*.yaml
var builtin embed.FS

// TestSuffix ends the names of files of unit tests.
const TestSuffix = "_test.yaml"

// Builtin returns the playbooks that are shipped with the program.
func Builtin() ([]File, error) { return shipped(false) }

// BuiltinTests returns their unit tests. These name their playbook by its file,
// without the folder, and refer to no recordings.
func BuiltinTests() ([]File, error) { return shipped(true) }

func shipped(tests bool) ([]File, error) {
	files, err := Files(builtin, "builtin/*.yaml")
	return slices.DeleteFunc(files, func(f File) bool { return strings.HasSuffix(f.Name, TestSuffix) != tests }), err
}
