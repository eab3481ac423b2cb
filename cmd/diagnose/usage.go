package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regpath/diagnose/playbooks/spelling"
)

// oneOf lists the known words, and suggests one.
func oneOf(word string, known []string) string {
	return "want one of " + strings.Join(known, ", ") + spelling.DidYouMean(word, known)
}

// subcommand refuses what is no subcommand, which is all that the root takes.
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
		return fmt.Errorf("unknown command %q: did you mean %q? diagnose --help lists all", args[0], other[0])
	}
	return fmt.Errorf("unknown command %q: %s", args[0], oneOf(args[0], known))
}

// arguments refuses fewer or more than so many arguments, called what.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s: want %s; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		case len(args) > most:
			return fmt.Errorf("%s: want %s, got %q as well; see %s --help", cmd.CommandPath(), what, args[most], cmd.CommandPath())
		}
		return nil
	}
}

// badFlag says what is wrong with a flag, in our words.
func badFlag(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() && cmd.Flags().NArg() > 0 {
		return subcommand(cmd, cmd.Flags().Args()) // whose flags the root cannot know
	}
	unknown, isUnknown := errors.AsType[*pflag.NotExistError](err)
	invalid, isInvalid := errors.AsType[*pflag.InvalidValueError](err)
	switch {
	case isUnknown && unknown.GetSpecifiedShortnames() == "":
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag %s%s; see %s --help", name, spelling.DidYouMean(name, known), cmd.CommandPath())
	case isInvalid:
		return fmt.Errorf("--%s: want %s, got %q", invalid.GetFlag().Name, kindOf(invalid.GetFlag()), invalid.GetValue())
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// kindOf says what a flag takes.
func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a duration such as 500ms or 10s"
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "a " + f.Value.Type()
}
