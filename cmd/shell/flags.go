package shell

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regpath/diagnose/playbooks/spelling"
)

// OneOf lists the known words, and suggests one.
func OneOf(word string, known []string) string {
	return "want one of " + strings.Join(known, ", ") + spelling.DidYouMean(word, known)
}

// Arguments refuses fewer or more than so many arguments, called what.
func Arguments(least, most int, what string) cobra.PositionalArgs {
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

// BadFlag says what is wrong with a flag, in our words.
func BadFlag(cmd *cobra.Command, err error) error {
	unknown, isUnknown := errors.AsType[*pflag.NotExistError](err)
	invalid, isInvalid := errors.AsType[*pflag.InvalidValueError](err)
	switch {
	case isUnknown && unknown.GetSpecifiedShortnames() == "":
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag %s%s; see %s --help", name, spelling.DidYouMean(name, known), cmd.CommandPath())
	case isInvalid:
		return fmt.Errorf("--%s: want %s, got %q", invalid.GetFlag().Name, KindOf(invalid.GetFlag()), invalid.GetValue())
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// KindOf says what a flag takes.
func KindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a duration such as 500ms or 10s"
	case "int":
		return "a whole number"
	case "uint", "uint64":
		return "a whole number that is not negative"
	case "float64":
		return "a number such as 0.01"
	case "bool":
		return "true or false"
	}
	return "a " + f.Value.Type()
}
