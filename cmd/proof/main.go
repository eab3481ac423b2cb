// Command proof runs the suites that prove the project's claims on live
// systems. It is built beside diagnose and never shipped.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
)

// The exit codes, beside those of a stdout that cannot be written to.
const (
	exitProven = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	shell.HeedPipe()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := shell.NewStdout(stdout, stop) // a proof that nobody can read is not worth its hour
	cmd := &cobra.Command{
		Use:   "proof",
		Short: "Prove the claims on live systems",
		Long: `proof runs suites that prove the claims on live systems.

Exit codes: 0 proven, 1 not proven, 2 bad usage, 4 stdout cannot be written to, 141
whoever read it has gone; both end a suite at once.`,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(newAccuracy(), newBench(), newBurst(), newChaos(), newRegistrations(), newRebuild(), newFilter(), newLatency())
	shell.AddHelp(cmd)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{shell.BadFlag(cmd, err)} })
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	code := exitProven
	if err := cmd.ExecuteContext(ctx); err != nil {
		if !out.Failed() {
			_, _ = fmt.Fprintln(stderr, "proof:", err)
		}
		code = exitFailed
		if errors.As(err, new(usageError)) {
			code = exitUsage
		}
	}
	return out.Exit(code, cmd.Name(), stderr)
}

// suite is the command that runs a suite, to which that adds its flags.
func suite(name, short string, run func(ctx context.Context, out io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNumbers(cmd.Flags()); err != nil {
				return err
			}
			return run(cmd.Context(), cmd.OutOrStdout())
		},
	}
}
