package playbooks_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
)

// TestPage holds the page of every shipped playbook, beside it, against the
// playbook.
func TestPage(t *testing.T) {
	files, err := playbooks.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range shipped(t) {
		source := strings.TrimPrefix(files[i].Name, "builtin/")
		path := strings.TrimSuffix(files[i].Name, ".yaml") + ".md"
		got := playbooks.Page(p, source)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is not the page of %s (go test -update writes it):\n%s", path, source, firstDifference(got, string(want)))
		}
		anchors := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(got, -1) {
			anchors[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(got, -1) {
			if !anchors[m[1]] {
				t.Errorf("%s: link to %q leads nowhere", path, m[1])
			}
		}
	}
}

// TestShippedCausesAreDocumented: no shipped cause is without its words.
func TestShippedCausesAreDocumented(t *testing.T) {
	for _, p := range shipped(t) {
		for _, h := range p.Causes {
			if h.About == "" || h.Looks == "" || len(h.MistakenFor) == 0 || len(h.Lasting) == 0 {
				t.Errorf("%s: %s lacks one of about, looks, mistaken_for, lasting", p.Name, h.ID)
			}
		}
	}
}

// TestPageOfLittle: what a playbook leaves out is left out of its page.
func TestPageOfLittle(t *testing.T) {
	got := playbooks.Page(load(t, smallCatalog(), small), "small.yaml")
	for _, want := range []string{
		"- **critical** when `a.x > 10`: x is `a.x`\n", "- **ok** otherwise: fine, z `a.z`\n",
		"### shallow\n\n**Shallow.**\n\n**It is this when all of these hold**\n\n- `b.y > 10`\n\n**What speaks for it**\n\n- `a.y > 10`, weight 3\n- `b.x > 10`\n\n**What to do now**\n\n- skim\n\n**Layer.** Layer B.\n\n**Source.** test.\n",
		"**It is not this when any of these holds**\n\n- `b.z == 1`\n", "Explains [shallow](#shallow), ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
	for _, not := range []string{"How it looks", "Mistaken for", "for good"} {
		if strings.Contains(got, not) {
			t.Errorf("got %q in:\n%s", not, got)
		}
	}
}
