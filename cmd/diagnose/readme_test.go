package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
)

// fenced returns the fenced blocks of a language in the manual.
func fenced(t *testing.T, language string) []string {
	t.Helper()
	manual, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(manual, -1) {
		blocks = append(blocks, string(m[1]))
	}
	if len(blocks) == 0 {
		t.Fatalf("the manual has no block of %s", language)
	}
	return blocks
}

// TestManualCommands: every command of the manual exists, with its flags.
func TestManualCommands(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, block := range fenced(t, "sh") {
		for line := range strings.Lines(block) {
			command, _, _ := strings.Cut(strings.TrimSpace(line), "#")
			words := strings.Fields(command)
			switch {
			case len(words) == 0:
			case words[0] == "make":
				seen++
				if !strings.Contains(string(makefile), "\n"+words[1]+":") {
					t.Errorf("%q: no such target", command)
				}
			case words[0] == "bin/diagnose":
				seen++
				cmd, rest, err := newRoot(streams{}).Find(words[1:])
				if err != nil {
					t.Errorf("%q: %v", command, err)
					continue
				}
				if err := cmd.ParseFlags(rest); err != nil {
					t.Errorf("%q: %v", command, err)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d commands were found in the manual", seen)
	}
}

// TestManualConfiguration: the configuration that the manual shows is taken.
func TestManualConfiguration(t *testing.T) {
	t.Parallel()
	for _, block := range fenced(t, "yaml") {
		if !strings.HasPrefix(block, "# diagnose.yml") {
			continue
		}
		var c config
		if err := playbooks.DecodeStrict("README.md", []byte(block), &c); err != nil {
			t.Fatal(err)
		}
		if err := c.validate(); err != nil {
			t.Error(err)
		}
		if err := c.validateServe(); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("the manual shows no diagnose.yml")
}
