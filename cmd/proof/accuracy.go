package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/fault"
)

// accuracy runs labelled scenarios through the shipped binary and counts how
// often it names the injected cause.
type accuracy struct {
	binary   string
	embedded bool
	real     bool
	rounds   int
	sample   time.Duration
	seed     uint64
	record   string
	minTop1  float64
	only     []string
}

func newAccuracy() *cobra.Command {
	a := accuracy{}
	cmd := &cobra.Command{
		Use:   "accuracy",
		Short: "Run every labelled scenario and print the confusion matrix",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), os.Stdout) },
	}
	fs := cmd.Flags()
	fs.StringVar(&a.binary, "diagnose", "", "the binary to prove (default the one beside this)")
	fs.BoolVar(&a.embedded, "embedded", true, "run on the embedded back ends")
	fs.BoolVar(&a.real, "real", true, "run on real back ends")
	fs.IntVar(&a.rounds, "rounds", 1, "times to run every scenario")
	fs.DurationVar(&a.sample, "sample", 0, "stop after this long and judge what was run (default everything)")
	fs.Uint64Var(&a.seed, "seed", uint64(time.Now().UnixNano()), "order of the runs")
	fs.Float64Var(&a.minTop1, "min-top1", 1, "share of the runs that must name the injected cause; the others must be inconclusive")
	fs.StringVar(&a.record, "record", "", "folder to keep every report in")
	fs.StringSliceVar(&a.only, "only", nil, "scenarios to run (default all)")
	return cmd
}

// trial is one run to make.
type trial struct {
	scenario fault.Scenario
	real     bool
}

func (t trial) String() string {
	if t.real {
		return t.scenario.Name + " (real)"
	}
	return t.scenario.Name + " (embedded)"
}

// expected is the label: the cause, or healthy.
func (t trial) expected() string {
	if t.scenario.Cause == "" {
		return string(playbooks.Healthy)
	}
	return t.scenario.Cause
}

func (a *accuracy) run(ctx context.Context, out io.Writer) error {
	if a.binary == "" {
		var err error
		if a.binary, err = beside("diagnose"); err != nil {
			return err
		}
	}
	if a.record != "" {
		if err := os.MkdirAll(a.record, 0o700); err != nil {
			return fmt.Errorf("make the folder of reports: %w", err)
		}
	}
	schema, err := reportSchema()
	if err != nil {
		return err
	}
	var s score
	started := time.Now()
	for _, t := range a.trials() {
		if a.sample > 0 && time.Since(started) > a.sample {
			break
		}
		report, err := a.try(ctx, t, schema)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		found := s.add(t.expected(), report)
		if _, err := fmt.Fprintf(out, "%-28s expected %-22s found %-22s in %d ms\n", t, t.expected(), found, report.DurationMS); err != nil {
			return err
		}
	}
	if s.runs == 0 {
		return errors.New("nothing was run")
	}
	if err := s.print(out); err != nil {
		return err
	}
	if s.wrong > 0 || float64(s.right) < a.minTop1*float64(s.runs) {
		return fmt.Errorf("%d of %d runs did not name the injected cause, %d named another", s.runs-s.right, s.runs, s.wrong)
	}
	return nil
}

// trials are all runs, in an order that the seed decides.
func (a *accuracy) trials() []trial {
	var all []trial
	for range a.rounds {
		for _, s := range fault.Scenarios(1, time.Second) { // the load itself is the demo's business
			if len(a.only) > 0 && !slices.Contains(a.only, s.Name) {
				continue
			}
			if a.embedded {
				all = append(all, trial{s, false})
			}
			if a.real {
				all = append(all, trial{s, true})
			}
		}
	}
	r := rand.New(rand.NewPCG(a.seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// try runs the demo and returns its report, which must satisfy the schema.
func (a *accuracy) try(ctx context.Context, t trial, schema *jsonschema.Schema) (playbooks.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	args := []string{"demo", "--scenario", t.scenario.Name, "--output", "json"}
	if t.real {
		args = append(args, "--real")
	}
	cmd := exec.CommandContext(ctx, a.binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || stdout.Len() == 0) {
		return playbooks.Report{}, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if a.record != "" {
		file := filepath.Join(a.record, fmt.Sprintf("%s-%d.json", t.scenario.Name, time.Now().UnixMilli()))
		if err := os.WriteFile(file, stdout.Bytes(), 0o600); err != nil {
			return playbooks.Report{}, fmt.Errorf("keep the report: %w", err)
		}
	}
	var r playbooks.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		return r, fmt.Errorf("decode the report: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(stdout.Bytes()))
	if err != nil {
		return r, fmt.Errorf("decode the report: %w", err)
	}
	return r, schema.Validate(doc)
}

func reportSchema() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(playbooks.ReportSchema()))
	if err != nil {
		return nil, fmt.Errorf("report schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	const name = "report.schema.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, fmt.Errorf("report schema: %w", err)
	}
	return c.Compile(name)
}
