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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	cmd := &cobra.Command{
		Use:           "proof",
		Short:         "Prove the claims on live systems",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(newAccuracy(), newBench(), newBurst(), newChaos(), newRegistrations(), newRebuild(), newFilter(), newLatency())
	err := cmd.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

// suite is the command that runs a suite, to which that adds its flags.
func suite(name, short string, run func(ctx context.Context, out io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), os.Stdout) },
	}
}
