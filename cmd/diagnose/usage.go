package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
)

// subcommand refuses what is no subcommand, which is all that the root and completion take.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	cmd.SuggestionsMinimumDistance = 2
	if other := cmd.SuggestionsFor(args[0]); len(other) > 0 { // which knows synonyms
		return fmt.Errorf("unknown command %q: did you mean %q? %s --help lists all", args[0], other[0], cmd.CommandPath())
	}
	return fmt.Errorf("unknown command %q: %s", args[0], shell.OneOf(args[0], known))
}

// badFlag says what is wrong with a flag, in our words.
func badFlag(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() && cmd.Flags().NArg() > 0 {
		return subcommand(cmd, cmd.Flags().Args()) // whose flags the root cannot know
	}
	return shell.BadFlag(cmd, err)
}
