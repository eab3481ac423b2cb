package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/playbooks/spelling"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
)

// The demo's checker is small, so that a filter can be filled before one's eyes.
const (
	demoNames    = 20_000
	demoCapacity = 30_000
	// demoWarm is how long the path runs well before it is hurt: enough for
	// caches to fill and for a baseline.
	demoWarm = 2 * time.Second
	// demoHurt is how long it runs sick before the alert, as a real alert's
	// `for:` would have it, shortened.
	demoHurt = 8 * time.Second
	// demoLoad bounds the load whatever happens.
	demoLoad = time.Minute
	// demoWait is how long the report may take after the alert.
	demoWait = 20 * time.Second
)

// exitWrongCause is what a demo ends with whose report does not name the
// injected cause.
const exitWrongCause = exitCauseFound

func newDemo(std streams) *cobra.Command {
	var scenario, output string
	var onReal, list, names bool
	cmd := &cobra.Command{
		Use:        "demo",
		SuggestFor: []string{"scenario", "try"},
		Short:      "Hurt a registration path of your own machine and have it diagnosed",
		Long: `demo starts the reference service with all its back ends on loopback, puts load on
it, injects a fault, posts an Alertmanager notification to the agent's webhook
and prints the report as chat would show it. Nothing keeps running and no file
is left behind.

It ends with exit code 0 only if the root cause found is the injected one.`,
		Args: shell.Arguments(0, 0, "flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			scenarios := fault.Scenarios(demoNames, demoLoad)
			if list {
				return listScenarios(std.out, scenarios, names)
			}
			if names {
				return errors.New("--names goes with --list")
			}
			if output != "text" && output != "json" {
				return fmt.Errorf("--output: want text or json, got %q", output)
			}
			var known []string
			for _, s := range scenarios {
				if s.Name == scenario {
					return demo(cmd.Context(), s, onReal, output, std)
				}
				known = append(known, s.Name)
			}
			return fmt.Errorf("unknown scenario %q%s; diagnose demo --list names them all", scenario, spelling.DidYouMean(scenario, known))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&scenario, "scenario", "bloom-undersized", "what is wrong")
	fs.BoolVar(&onReal, "real", false, "run on a private redis-server and PostgreSQL instead of the embedded ones")
	fs.StringVar(&output, "output", "text", "text or json; json prints the report alone to stdout")
	fs.BoolVar(&list, "list", false, "list the scenarios with the cause each should lead to")
	fs.BoolVar(&names, "names", false, "with --list: the names alone")
	return cmd
}

func listScenarios(w io.Writer, scenarios []fault.Scenario, namesOnly bool) error {
	var b strings.Builder
	for _, s := range scenarios {
		if namesOnly {
			fmt.Fprintln(&b, s.Name)
			continue
		}
		expected := s.Cause
		if expected == "" {
			expected = string(playbooks.Healthy)
		}
		fmt.Fprintf(&b, "%-18s %-24s %s\n", s.Name, expected, s.Help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func demo(ctx context.Context, s fault.Scenario, onReal bool, output string, std streams) error {
	started := time.Now()
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(std.err, "%5.1fs  "+format+"\n", append([]any{time.Since(started).Seconds()}, args...)...)
	}
	report, err := rehearse(ctx, s, onReal, say)
	if err != nil {
		return err
	}
	if err := writeReport(std.out, *report, output); err != nil {
		return err
	}
	found, expected := verdictOf(*report), s.Cause
	if expected == "" {
		expected = string(playbooks.Healthy)
	}
	if found != expected {
		say("wrong: injected %s, found %s", expected, found)
		return exitCode(exitWrongCause)
	}
	say("right: injected %s, found %s", expected, found)
	return nil
}

// verdictOf is the id of the root cause, or the verdict where none was found;
// an inconclusive report may hold suspicions, which do not count.
func verdictOf(r playbooks.Report) string {
	if r.Verdict == playbooks.CauseFound {
		return r.Causes[0].ID
	}
	return string(r.Verdict)
}

// rehearse plays one scenario through and returns the report. Everything it
// started has ended when it returns.
func rehearse(ctx context.Context, s fault.Scenario, onReal bool, say func(string, ...any)) (_ *playbooks.Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The back ends outlive an interruption, so that the fault can be mended and everything closed in order.
	path, err := local.Start(context.WithoutCancel(ctx), local.Options{
		Real: onReal, Names: demoNames, Faults: true,
		Filter: bloom.Params{Capacity: demoCapacity, Rate: 0.01},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, path.Close()) }()
	say("checker serves on %s with %d names", path.URL, demoNames)

	stopLoad := startLoad(ctx, path.URL, s.Load)
	defer func() { err = errors.Join(err, stopLoad()) }()
	agent, err := startDemoAgent(ctx, path, recorderConfig{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agent.stop()) }()
	say("agent listens on %s", agent.url)

	if err := pause(ctx, demoWarm); err != nil {
		return nil, err
	}
	onset := time.Now()
	if s.Fault != "" {
		if _, err := path.Faults.Switch(ctx, s.Fault, true); err != nil {
			return nil, fmt.Errorf("inject %s: %w", s.Fault, err)
		}
	}
	say("scenario %s: %s", s.Name, s.Help)
	if err := pause(ctx, demoHurt); err != nil {
		return nil, err
	}
	if err := agent.alert(ctx, path.URL, onset); err != nil {
		return nil, err
	}
	say("alert posted and stored")
	report, err := agent.report(ctx, demoWait)
	if err != nil {
		return nil, err
	}
	say("report is there\n")
	return report, nil
}

// startLoad keeps the load up until the returned func stops it, which also
// tells whether the load could run. It begins gently, as a load balancer does
// with an instance that has just come up: while pools open their connections, a
// machine that is busy otherwise would answer hundreds of requests too late, and
// errors of a service that young have no past to be compared with.
func startLoad(ctx context.Context, url string, p load.Profile) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		gentle := p
		gentle.Rate, gentle.Duration, gentle.Seed = p.Rate/10, time.Second, p.Seed+1
		_, err := load.Run(ctx, url, gentle)
		if err == nil && ctx.Err() == nil {
			_, err = load.Run(ctx, url, p)
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// pause lets d pass.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
}

// quiet is the log of the demo's agent: its report is the only thing to read.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
