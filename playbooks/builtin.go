package playbooks

import "embed"

//go:embed builtin/*.yaml
var builtin embed.FS

// Builtin returns the playbooks that are shipped with the program.
func Builtin() ([]File, error) { return Files(builtin, "builtin/*.yaml") }
