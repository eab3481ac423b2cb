// Command diagnose works out why a registration path is sick: it takes alerts
// from Alertmanager or an engineer's word, runs a playbook against the target,
// judges what it saw and reports the root cause.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/playbooks"
)

// The exit codes, as README.md documents them.
const (
	exitHealthy      = 0
	exitCauseFound   = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitUntold       = shell.ExitUnwritten
	exitInterrupted  = 130 // as shells have it
)

func main() {
	shell.HeedPipe()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what the first could not
	os.Exit(run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr}))
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	logging.Disable() // go-redis repeats on stderr what it also returns as an error
	out := shell.NewStdout(std.out, nil)
	cmd := newRoot(streams{out: out, err: std.err}, std)
	cmd.SetArgs(args)
	return out.Exit(exitOf(ctx, cmd.ExecuteContext(ctx), std.err), "diagnose", std.err)
}

// exitOf tells an error to the user and returns the exit code.
func exitOf(ctx context.Context, err error, stderr io.Writer) int {
	var code exitCode
	faults := new(playbooks.LoadError)
	switch {
	case err == nil:
		return exitHealthy
	case errors.As(err, &code):
		return int(code)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(stderr, "diagnose: interrupted")
		return exitInterrupted
	case errors.As(err, &faults): // as compilers print them, for editors: nothing before the place
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	case errors.As(err, new(untold)):
		_, _ = fmt.Fprintf(stderr, "diagnose: %v\n", err)
		return exitUntold
	default:
		_, _ = fmt.Fprintf(stderr, "diagnose: %v\n", err)
		return exitUsage
	}
}

// exitCode is an error that has already been told to the user: only the
// process's exit code is left to set.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// untold is what kept a report, once it was made, from being told or kept. Nothing is
// wrong with the command then, which is what a script would make of exitUsage.
type untold struct{ error }

func (u untold) Unwrap() error { return u.error }
