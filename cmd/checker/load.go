package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/playbooks/spelling"
	"github.com/regpath/diagnose/probes/source"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
)

// newLoad is the subcommand that sends a checker something to do.
func newLoad(stdout io.Writer) *cobra.Command {
	var url, scenario string
	var names int
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Put load on a checker of this machine, for a bounded time",
		Long: `load sends an even stream of checks and registrations to a checker on this
machine, as the demo's scenarios do, and prints what came of it. It fails at once
where nobody listens, and in the end when nothing was answered.`,
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := profile(scenario, names, duration)
			if err != nil {
				return usageError{err}
			}
			if err := source.CheckURL(url); err != nil {
				return usageError{fmt.Errorf("--url: %w; expected http://host:port of a checker", err)}
			}
			r, err := load.Run(cmd.Context(), url, p)
			if errors.Is(err, load.ErrNobody) {
				return fmt.Errorf("%w: start a checker there, or say by --url where one serves", err)
			}
			if err != nil {
				return usageError{err}
			}
			if _, err = fmt.Fprintln(stdout, outcome(r)); err != nil {
				return err
			}
			if r.Sent > 0 && len(r.Check)+len(r.Register) == 0 {
				return fmt.Errorf("nothing was answered at all: is a checker serving at %s?", url)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&url, "url", "http://127.0.0.1:8080", "where the checker serves")
	fs.StringVar(&scenario, "scenario", "healthy", "whose load to send")
	fs.IntVar(&names, "names", 20_000, "names that the checker began with")
	fs.DurationVar(&duration, "for", 30*time.Second, "how long")
	return cmd
}

// profile is the load of a scenario.
func profile(scenario string, names int, duration time.Duration) (load.Profile, error) {
	var known []string
	for _, s := range append(fault.Scenarios(names, duration), fault.Loads(names, duration)...) {
		if s.Name == scenario {
			return s.Load, nil
		}
		known = append(known, s.Name)
	}
	return load.Profile{}, fmt.Errorf("unknown scenario %q: want one of %s%s", scenario, strings.Join(known, ", "), spelling.DidYouMean(scenario, known))
}

// outcome says in one line what came of a load.
func outcome(r load.Result) string {
	var parts []string
	add := func(what string, answers map[int]uint64) {
		for _, status := range slices.Sorted(maps.Keys(answers)) {
			parts = append(parts, fmt.Sprintf("%s %d: %d", what, status, answers[status]))
		}
	}
	add("check", r.Check)
	add("register", r.Register)
	for _, reason := range slices.Sorted(maps.Keys(r.Errors)) {
		parts = append(parts, fmt.Sprintf("%s: %d", reason, r.Errors[reason]))
	}
	return fmt.Sprintf("sent %d in %s, dropped %d; %s; p50 %s, p99 %s", r.Sent, r.Elapsed.Round(time.Millisecond), r.Dropped,
		strings.Join(parts, ", "), r.Latency.P50.Round(time.Microsecond), r.Latency.P99.Round(time.Microsecond))
}
