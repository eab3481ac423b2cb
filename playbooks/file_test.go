package playbooks_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/regpath/diagnose/playbooks"
)

func TestFiles(t *testing.T) {
	fsys := fstest.MapFS{"b.yaml": {Data: []byte("b")}, "a.yaml": {Data: []byte("a")}, "c.txt": {}}
	got, err := playbooks.Files(fsys, "*.yaml")
	if err != nil || len(got) != 2 || got[0].Name != "a.yaml" || string(got[1].Data) != "b" {
		t.Errorf("got %v, %v; want a.yaml and b.yaml", got, err)
	}
	if _, err := playbooks.Files(fsys, "none.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := playbooks.Files(fsys, "[", "a.yaml"); err == nil {
		t.Error("bad pattern: got no error")
	}
}

// inParts writes the small playbook with its causes in a part, and returns the
// path of its head.
func inParts(t *testing.T, parts, causes string) string {
	t.Helper()
	head, _, _ := strings.Cut(small, "\ncauses:\n")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "small"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"small.yaml": head + "\nparts: [" + parts + "]\n", "small/causes.yaml": causes} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "small.yaml")
}

// causesOfSmall are the causes of the small playbook, as a part.
func causesOfSmall() string {
	_, causes, _ := strings.Cut(small, "\ncauses:\n")
	return "causes:\n" + causes
}

// TestParts: a playbook in parts is the same playbook.
func TestParts(t *testing.T) {
	f, err := playbooks.ReadFile(inParts(t, "small/causes.yaml", causesOfSmall()), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := playbooks.Load(smallCatalog(), f)
	if err != nil {
		t.Fatal(err)
	}
	whole := load(t, smallCatalog(), small)
	if got, want := playbooks.Page(ps[0], "x"), playbooks.Page(whole, "x"); got != want {
		t.Errorf("in parts it is another playbook:\n%s", firstDifference(got, want))
	}
}

// TestFaultsOfParts: what is wrong with a part is placed in the part, and what
// is said of one file does not silence the other.
func TestFaultsOfParts(t *testing.T) {
	bad := strings.NewReplacer("a.x > 10", "a.xx > 10", "explains: [shallow]", "explains: [shalow]").Replace(causesOfSmall()) + "timeout: 3s\n"
	head := inParts(t, "small/causes.yaml", bad)
	f, err := playbooks.ReadFile(head, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	_, err = playbooks.Load(smallCatalog(), f)
	part := filepath.Join(filepath.Dir(head), "small", "causes.yaml")
	for _, want := range []string{
		part + `:7:12: causes[0].when[0]: unknown fact "a.xx"; did you mean "a.x"?`,
		part + `:9:16: causes[0].explains[0]: unknown cause "shalow"; expected one of deep, shallow; did you mean "shallow"?`,
		`: unknown field "timeout"; expected one of steps, causes, healthy, remarks`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestPartsThatCannotBeRead: every one is named, with the playbook that asks for
// it; none is looked for outside the playbook's folder.
func TestPartsThatCannotBeRead(t *testing.T) {
	head := inParts(t, "small/none.yaml, ../x.yaml, /etc/passwd", causesOfSmall())
	_, err := playbooks.ReadFile(head, os.ReadFile)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want %v", err, fs.ErrNotExist)
	}
	for _, want := range []string{"none.yaml", `"../x.yaml" is no path below`, `"/etc/passwd" is no path below`, head} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %s", err, want)
		}
	}
	text, err := os.ReadFile(head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := playbooks.Load(smallCatalog(), playbooks.File{Name: "small.yaml", Data: text}); err == nil || !strings.Contains(err.Error(), `part "small/none.yaml" was not read`) {
		t.Errorf("got %v, want it to miss the part", err)
	}
}
