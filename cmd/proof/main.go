// Command proof runs the suites that prove the project's claims on live
// systems. It is built beside diagnose and never shipped.
package main

import (
	"context"
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

Exit codes: 0 proven, 1 not proven or bad usage, 4 stdout cannot be written to, 141
whoever read it has gone; both end a suite at once.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(newAccuracy(), newBench(), newBurst(), newChaos(), newRegistrations(), newRebuild(), newFilter(), newLatency())
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	code := exitProven
	if err := cmd.ExecuteContext(ctx); err != nil {
		if !out.Failed() {
			_, _ = fmt.Fprintln(stderr, "proof:", err)
		}
		code = exitFailed
	}
	return out.Exit(code, cmd.Name(), stderr)
}

// suite is the command that runs a suite, to which that adds its flags.
func suite(name, short string, run func(ctx context.Context, out io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), cmd.OutOrStdout()) },
	}
}
