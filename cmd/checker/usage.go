package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/playbooks/spelling"
	"github.com/regpath/diagnose/probes/source"
)

// addresses names every address among the flags that cannot be one, before anything
// is started.
func (f *flags) addresses(redis string) error {
	var errs []error
	check := func(flag, value string, wrong func(string) error, expected string) {
		if value == "" {
			return
		}
		if err := wrong(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w; expected %s", flag, err, expected))
		}
	}
	check("--listen", f.Listen, source.CheckListen, "host:port")
	check("--redis", redis, source.CheckAddress, "host:port, or a redis:// or rediss:// URL")
	check("--followup-url", f.FollowUpURL, source.CheckEndpoint, "http://host:port/path")
	check("--welcome-url", f.WelcomeURL, source.CheckEndpoint, "http://host:port/path")
	for i, dsn := range f.ShardDSNs {
		check(fmt.Sprintf("--shard-dsn of shard%d", i), dsn, source.CheckDSN, "postgres://user:password@host:port/database")
	}
	for i, dsn := range f.ShardReplicaDSNs {
		check(fmt.Sprintf("--shard-replica-dsn of shard%d", i), dsn, source.CheckDSN, "postgres://user:password@host:port/database")
	}
	return errors.Join(errs...)
}

// flagsOnly refuses arguments, and suggests the subcommand that may be meant.
func flagsOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	if len(known) == 0 {
		return usageError{shell.Arguments(0, 0, "flags only")(cmd, args)}
	}
	return usageError{fmt.Errorf("unknown command %q: want none, or one of %s%s", args[0], strings.Join(known, ", "), spelling.DidYouMean(args[0], known))}
}
