package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regpath/diagnose/cmd/shell"
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// noArguments refuses arguments; of the root, which has commands, all of them.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return usageError{shell.Arguments(0, 0, "flags only")(cmd, args)}
	}
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	return usageError{fmt.Errorf("unknown command %q: %s", args[0], shell.OneOf(args[0], known))}
}

// checkNumbers refuses numbers of which no suite can make sense: all of them count
// something, or say how long or how much.
func checkNumbers(fs *pflag.FlagSet) error {
	var errs []error
	fs.Visit(func(f *pflag.Flag) {
		text, least := f.Value.String(), 0
		switch f.Value.Type() {
		case "int":
			if f.DefValue != "0" {
				least = 1
			}
			if n, err := strconv.Atoi(text); err == nil && n < least {
				errs = append(errs, fmt.Errorf("--%s: want at least %d, got %s", f.Name, least, text))
			}
		case "duration", "float64":
			if text[0] == '-' {
				errs = append(errs, fmt.Errorf("--%s: want what is not negative, got %s", f.Name, text))
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}
