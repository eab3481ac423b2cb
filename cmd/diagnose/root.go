package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
)

// streams are where a command writes: results to out, everything else to err.
type streams struct{ out, err io.Writer }

// newRoot makes all commands. The agent's streams are apart: its sinks are to know
// what they could not write, and tell it again.
func newRoot(std, agent streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Work out why a registration path is sick, and say so in chat",
		Long: `diagnose looks once at every layer of a registration path (Bloom filter, Redis,
shards, errors), works out the root cause and reports it with its evidence.

Exit codes: 0 healthy, 1 cause found, 2 bad usage or configuration, 3 inconclusive,
4 what was asked for could not be printed, kept or sent, 130 interrupted, 141 whoever
read stdout has gone. What can be done without stdout is done, a recording and
messages to chat among it; a stdout that is closed is taken for /dev/null.`,
		Version:       version(),
		Args:          subcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetFlagErrorFunc(badFlag)
	cmd.SetVersionTemplate("diagnose {{.Version}}\n")
	cmd.SetOut(std.out)
	cmd.SetErr(std.err)
	cmd.AddCommand(newRun(std), newReplay(std), newLint(std), newTest(std), newDocs(std), newServe(agent), newIncidents(std), newDemo(std), newVersion(std))
	shell.AddHelp(cmd)
	return cmd
}

// newLogger logs to std.err in the format that suits a service.
func newLogger(std streams, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: level}))
}
