package playbooks

import "gopkg.in/yaml.v3"

// FileKind is what a file seems to be, by the fields at its top.
type FileKind string

// What may lie in a folder of playbooks.
const (
	IsPlaybook FileKind = "a playbook"
	IsPart     FileKind = "a part of a playbook"
	IsTests    FileKind = "tests of a playbook"
	IsOther    FileKind = "" // or what cannot be read
)

// KindOf says what a file seems to be, whatever is wrong with it.
func KindOf(data []byte) FileKind {
	root := new(document).parse(data)
	if root == nil {
		return IsOther
	}
	return kindOf(root)
}

func kindOf(root *yaml.Node) FileKind {
	kind := IsOther
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch root.Content[i].Value {
		case "name", "title", "timeout", "parts":
			return IsPlaybook
		case "playbook", "tests":
			return IsTests
		case "steps", "causes", "healthy", "remarks":
			kind = IsPart
		}
	}
	return kind
}

// notMeant notes, in place of all that follows from it, that a file is another than
// the one that is meant.
func (d *document) notMeant(root *yaml.Node, meant FileKind) bool {
	kind := kindOf(root)
	if kind == meant || kind == IsOther {
		return false
	}
	switch kind {
	case IsPart:
		d.add(root, "", "has steps or causes but neither name, title nor timeout, as a part of a playbook", string(meant)+"; a part is read with the playbook that names it under parts")
	case IsTests:
		d.add(root, "", "has tests", string(meant)+"; diagnose test runs tests")
	default:
		d.add(root, "", "is a playbook, not tests of one", "playbook and tests, in a file *"+TestSuffix)
	}
	return true
}
