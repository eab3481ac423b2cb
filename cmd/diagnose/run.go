package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes/source"
)

// runFlags are the flags of `diagnose run`.
type runFlags struct {
	config, target, playbook string
	files                    []string
	by                       targetFlags // without a configuration
	output, record           string
	window                   time.Duration
	notify, verbose          bool
}

func newRun(std streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:        "run",
		SuggestFor: []string{"check", "now"},
		Short:      "Run a playbook now and report",
		Long: `run looks at the target once, judges what it saw and prints the report.

The target is that of --config, or is given by --checker and, for a fuller look,
--redis and --shard-dsn or --shard-dsn-file. What is not given is a gap in the report.
Secrets come from files: --checker-token-file, --redis-password-file and the like.`,
		Example: `  diagnose run --config diagnose.yml
  diagnose run --checker http://127.0.0.1:8080 --redis 127.0.0.1:6379
  diagnose run --config diagnose.yml --record incident.json`,
		Args: shell.Arguments(0, 0, "flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), std) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file")
	fs.StringVar(&f.target, "target", "", "target of the configuration (default the first)")
	fs.StringVar(&f.playbook, "playbook", "", "playbook to run (default that of the configuration, else "+defaultPlaybook+")")
	fs.StringArrayVar(&f.files, "playbook-file", nil, "file with a further playbook; may be repeated")
	f.by.register(fs)
	fs.DurationVar(&f.window, "window", 0, "time between the two samples that rates come from (default that of the configuration, else of the playbook: 3s)")
	fs.StringVar(&f.output, "output", "text", "text or json")
	fs.StringVar(&f.record, "record", "", "file to write the report to as JSON, for diagnose replay")
	fs.BoolVar(&f.notify, "notify", false, "also send the report to the sinks of the configuration")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "report every fact, gap and condition, and log to stderr what goes wrong on the way")
	return cmd
}

// resolve turns flags and file into one configuration.
func (f *runFlags) resolve() (*config, targetConfig, error) {
	var none targetConfig
	if f.output != "text" && f.output != "json" {
		return nil, none, fmt.Errorf("--output: want text or json, got %q", f.output)
	}
	if err := source.CheckWindow(f.window); err != nil {
		return nil, none, fmt.Errorf("--window: %w", err)
	}
	if (f.config == "") == (f.by.checker == "") {
		return nil, none, errors.New("give the target either by --config FILE or by --checker URL")
	}
	if f.config == "" {
		if f.notify {
			return nil, none, errors.New("--notify needs --config, which names the sinks")
		}
		if f.target != "" {
			return nil, none, errors.New("--target needs --config, which names the targets")
		}
		t, err := f.by.target()
		c := &config{Playbook: defaultPlaybook, Targets: []targetConfig{t}}
		return c, t, err
	}
	if given := f.by.given(); len(given) > 0 {
		return nil, none, fmt.Errorf("%s: goes with --checker, not with --config, which has a field for it", strings.Join(given, ", "))
	}
	target := 0
	c, err := loadConfig(f.config, func(c *config, bad complain) (err error) {
		if target, err = c.target(f.target); err != nil {
			err = fmt.Errorf("--target: %w", err)
		} else if len(c.Targets) > 0 {
			follow(below(at("targets", target), c.Targets[target].secrets()), bad)
		}
		if f.notify {
			if len(c.Notify) == 0 {
				bad("notify", "is needed for --notify", "at least one sink")
			}
			follow(c.sinkSecrets(), bad)
		}
		return errors.Join(err, c.checkPlaybooks(bad, f.files...))
	})
	if err != nil {
		return nil, none, err
	}
	return c, c.Targets[target], nil
}

func (f *runFlags) run(ctx context.Context, std streams) error {
	c, tc, err := f.resolve()
	if err != nil {
		return err
	}
	t, err := newTarget(tc)
	if err != nil {
		return err
	}
	byName, err := loadPlaybooks(t.catalog(), append(c.Playbooks, f.files...))
	if err != nil {
		return err
	}
	name := c.Playbook
	if f.playbook != "" {
		name = f.playbook
	}
	p, err := pick(byName, name)
	if err != nil {
		return err
	}
	var sinks []sink
	if f.notify {
		// The report is printed anyway: a sink to stdout has had it then.
		elsewhere := slices.DeleteFunc(slices.Clone(c.Notify), func(n notifyConfig) bool { return n.Stdout != nil })
		if sinks, err = newSinks(elsewhere, std.out); err != nil {
			return err
		}
	}
	in := playbooks.Incident{Trigger: "manual", Title: "diagnose run", Playbook: p.Name, Target: t.name, StartedAt: time.Now()}
	f.window = cmp.Or(f.window, c.Window)
	report, err := f.look(ctx, t, p, in, std)
	if err != nil && !errors.As(err, new(untold)) {
		return err
	}
	in.ID = report.ID
	if err := errors.Join(err, tellAll(ctx, notify.Notice{Incident: in, Phase: notify.Reported, Report: &report}, sinks)); err != nil {
		return err
	}
	return exitFor(report.Verdict)
}

// tellAll tells every sink, whatever becomes of the others.
func tellAll(ctx context.Context, n notify.Notice, sinks []sink) error {
	var errs []error
	for _, s := range sinks {
		ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
		if _, err := notify.All(ctx, s, n); err != nil {
			errs = append(errs, untold{fmt.Errorf("send the report: %s: %w", s.name, err)})
		}
		cancel()
	}
	return errors.Join(errs...)
}

// look runs the playbook, prints the report and, if asked to, records it.
func (f *runFlags) look(ctx context.Context, t *target, p *playbooks.Playbook, in playbooks.Incident, std streams) (_ playbooks.Report, err error) {
	none := playbooks.Report{}
	var rec *recording
	if f.record != "" {
		if rec, err = newRecording(f.record); err != nil {
			return none, err
		}
	}
	level := slog.LevelError
	if f.verbose {
		level = slog.LevelInfo
	}
	logger := newLogger(std, level)
	t.open(ctx, logger)
	defer t.close(context.WithoutCancel(ctx))
	report := (&playbooks.Runner{Logger: logger, Window: f.window}).Run(ctx, p, in)
	if err := ctx.Err(); err != nil {
		err = fmt.Errorf("interrupted: %w", err)
		if rec != nil {
			err = errors.Join(err, rec.drop())
		}
		return none, err
	}
	detail := notify.Digest
	if f.verbose {
		detail = notify.Full
	}
	err = writeDetail(std.out, report, f.output, detail)
	if rec != nil {
		err = errors.Join(err, rec.keep(report))
	}
	return report, err
}

// writeReport prints the report as text or as JSON, with a line feed after it.
func writeReport(w io.Writer, r playbooks.Report, format string) error {
	return writeDetail(w, r, format, notify.Digest)
}

// writeDetail is writeReport with so much detail where it is text.
func writeDetail(w io.Writer, r playbooks.Report, format string, d notify.Detail) error {
	var err error
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = notify.Text(w, r, notify.TextOptions{Detail: d})
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// exitFor is the exit code that tells the verdict to a script.
func exitFor(v playbooks.Verdict) error {
	switch v {
	case playbooks.Healthy:
		return nil
	case playbooks.CauseFound:
		return exitCode(exitCauseFound)
	default:
		return exitCode(exitInconclusive)
	}
}
