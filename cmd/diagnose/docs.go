package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/playbooks"
)

func newDocs(std streams) *cobra.Command {
	return &cobra.Command{
		Use:        "docs [FILE ...]",
		SuggestFor: []string{"doc", "page"},
		Short:      "Print the page about a playbook's causes",
		Long: `docs prints, as Markdown, what a playbook knows of each cause: what it is, how it
looks, what it is mistaken for and the check that tells them apart, what to do now
and for good. Without an argument it is the page of the built-in playbooks.`,
		Example: "  diagnose docs mine.yaml > mine.md",
		RunE:    func(_ *cobra.Command, args []string) error { return docs(args, std.out) },
	}
}

func docs(paths []string, out io.Writer) error {
	var files []playbooks.File
	for _, path := range paths {
		f, err := readPlaybook(path)
		if err != nil {
			return fmt.Errorf("read playbook: %w", err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		var err error
		if files, err = playbooks.Builtin(); err != nil {
			return err
		}
	}
	loaded, err := playbooks.Load((&target{}).catalog(), files...)
	if err != nil {
		return err
	}
	for i, p := range loaded {
		if _, err := io.WriteString(out, playbooks.Page(p, filepath.Base(files[i].Name))); err != nil {
			return err
		}
	}
	return nil
}
