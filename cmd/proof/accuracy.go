package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/fault"
)

// accuracy runs labelled cases through the shipped binary and counts how often
// it names the injected cause.
type accuracy struct {
	binary   string
	checker  string
	embedded bool
	real     bool
	clinic   bool
	rounds   int
	parallel int
	sample   time.Duration
	seed     uint64
	record   string
	minTop1  float64
	only     []string
	list     bool
}

func newAccuracy() *cobra.Command {
	a := accuracy{}
	cmd := suite("accuracy", "Run every labelled case and print the confusion matrix", a.run)
	cmd.Long = `accuracy runs two kinds of cases, all of them with load:

  the scenarios of diagnose demo, whole from the alert to the report, on the
  embedded back ends and on real ones;

  the ailments: a checker of its own process on real back ends, hurt from
  outside in several ways and degrees per cause, healthy ones under strain,
  pairs of independent faults, and agents that are kept from a layer.

It fails if a cause that was not injected is named, or too few are found.`
	fs := cmd.Flags()
	fs.StringVar(&a.binary, "diagnose", "", "the binary to prove (default the one beside this)")
	fs.StringVar(&a.checker, "checker", "", "the checker to hurt (default the one beside this)")
	fs.BoolVar(&a.embedded, "embedded", true, "run the demo's scenarios on the embedded back ends")
	fs.BoolVar(&a.real, "real", true, "run the demo's scenarios on real back ends")
	fs.BoolVar(&a.clinic, "ailments", true, "run the ailments")
	fs.IntVar(&a.rounds, "rounds", 1, "times to run every case")
	fs.IntVar(&a.parallel, "parallel", 2, "how many cases of light load may run at the same time; each of the others has the machine for itself")
	fs.DurationVar(&a.sample, "sample", 0, "stop after this long and judge what was run (default everything)")
	fs.Uint64Var(&a.seed, "seed", uint64(time.Now().UnixNano()), "order of the runs")
	fs.Float64Var(&a.minTop1, "min-top1", 0.97, "share of the runs that must name the injected cause; the others must be inconclusive")
	fs.StringVar(&a.record, "record", "", "folder to keep every report in")
	fs.StringSliceVar(&a.only, "only", nil, "cases to run, by the beginning of their names (default all)")
	fs.BoolVar(&a.list, "list", false, "list the cases instead")
	return cmd
}

// trial is one run to make.
type trial struct {
	name  string
	label label
	// light says that it leaves the machine room for another.
	light bool
	run   func(ctx context.Context) (outcome, error)
}

// outcome is what came of a trial.
type outcome struct {
	// report is what the shipped binary wrote.
	report []byte
	// starved says that the kernel kept the checker waiting for the CPU while it was
	// diagnosed.
	starved bool
}

// tried is a trial that was made, or could not be made.
type tried struct {
	trial   trial
	report  playbooks.Report
	starved bool
	err     error
}

func (a *accuracy) run(ctx context.Context, out io.Writer) error {
	for binary, name := range map[*string]string{&a.binary: "diagnose", &a.checker: "checker"} {
		var err error
		if *binary, err = beside(*binary, name); err != nil {
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
	all := a.trials()
	if a.list {
		for _, t := range all {
			if _, err := fmt.Fprintln(out, t.name); err != nil {
				return err
			}
		}
		return nil
	}
	var s score
	var failed []error // trials that could not be made; the others go on
	for r := range a.tries(ctx, all, schema) {
		what := ""
		if r.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.trial.name, r.err))
			what = "could not be made: " + r.err.Error()
		} else {
			what = fmt.Sprintf("found %-22s in %d ms", s.add(r.trial.label, r.report, r.starved), r.report.DurationMS)
		}
		if r.starved {
			what += ", starved"
		}
		if _, err := fmt.Fprintf(out, "%-60s %s\n", r.trial.name, what); err != nil {
			return err
		}
	}
	if s.runs == 0 {
		return errors.Join(append(failed, errors.New("nothing was run"))...)
	}
	if err := s.print(out); err != nil {
		return err
	}
	if err := errors.Join(append(failed, ctx.Err())...); err != nil {
		return err
	}
	if s.wrong > 0 || s.halfBlindBad > 0 || float64(s.right) < a.minTop1*float64(s.runs) {
		return fmt.Errorf("%d of %d runs did not name the injected cause, %d named another", s.runs-s.right, s.runs, s.wrong)
	}
	return nil
}

// tries makes the trials, in their order as far as there is room, and yields each
// when it is done.
func (a *accuracy) tries(ctx context.Context, all []trial, schema *jsonschema.Schema) iter.Seq[tried] {
	return func(yield func(tried) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		room := semaphore.NewWeighted(int64(max(1, a.parallel)))
		done := make(chan tried)
		started := time.Now()
		go func() {
			defer close(done)
			var running sync.WaitGroup
			defer running.Wait()
			for _, t := range all {
				need := int64(max(1, a.parallel))
				if t.light {
					need = 1
				}
				if room.Acquire(ctx, need) != nil {
					return
				}
				if a.sample > 0 && time.Since(started) > a.sample {
					return
				}
				running.Go(func() {
					r := tried{trial: t}
					r.report, r.starved, r.err = a.try(ctx, t, schema)
					room.Release(need)
					select {
					case done <- r:
					case <-ctx.Done():
					}
				})
			}
		}()
		for r := range done {
			if !yield(r) {
				cancel()
				for range done { // let them end
				}
				return
			}
		}
	}
}

// trials are all runs, in an order that the seed decides.
func (a *accuracy) trials() []trial {
	var all []trial
	for range a.rounds {
		if a.embedded {
			all = append(all, a.demos("embedded")...)
		}
		if a.real {
			all = append(all, a.demos("real", "--real")...)
		}
		if a.clinic {
			for _, one := range ailments() {
				all = append(all, trial{one.String(), one.label, one.plan().light(), func(ctx context.Context) (outcome, error) { return a.treat(ctx, one) }})
			}
		}
	}
	all = slices.DeleteFunc(all, func(t trial) bool {
		return len(a.only) > 0 && !slices.ContainsFunc(a.only, func(o string) bool { return strings.HasPrefix(t.name, o) })
	})
	if !a.list {
		r := rand.New(rand.NewPCG(a.seed, 0))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return all
}

// demos are the scenarios of the demo, on one kind of back ends.
func (a *accuracy) demos(kind string, flags ...string) (all []trial) {
	for _, s := range fault.Scenarios(1, time.Second) { // the load itself is the demo's business
		var l label
		if s.Cause != "" {
			l.roots = []string{s.Cause}
		}
		args := append([]string{"demo", "--scenario", s.Name, "--output", "json"}, flags...)
		all = append(all, trial{l.String() + "/demo " + s.Name + ", " + kind, l, false, func(ctx context.Context) (outcome, error) {
			report, err := a.diagnose(ctx, args...)
			return outcome{report: report}, err
		}})
	}
	return all
}

// treat admits a patient, hurts him and has him diagnosed.
func (a *accuracy) treat(ctx context.Context, one ailment) (o outcome, err error) {
	pl := one.plan()
	p, err := admit(ctx, a.checker, pl)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, p.discharge()) }()
	for _, do := range []func(context.Context, *patient) error{one.hurt, one.blind} {
		if do == nil {
			continue
		}
		if err := do(ctx, p); err != nil {
			return o, err
		}
	}
	if err := pause(ctx, pl.sick); err != nil {
		return o, err
	}
	before := cpuOf(p.process.Process.Pid)
	o.report, err = a.diagnose(ctx, append([]string{"run", "--output", "json"}, p.agent...)...)
	o.starved = cpuOf(p.process.Process.Pid).starved(before)
	return o, err
}

// diagnose runs the shipped binary and returns what it writes.
func (a *accuracy) diagnose(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, a.binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || stdout.Len() == 0) {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}

// try makes a run and returns its report, which must satisfy the schema.
func (a *accuracy) try(ctx context.Context, t trial, schema *jsonschema.Schema) (r playbooks.Report, starved bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	o, err := t.run(ctx)
	if err != nil {
		return r, o.starved, err
	}
	text := o.report
	if a.record != "" {
		name := strings.Trim(nameParts().ReplaceAllString(t.name, "-"), "-")
		file := filepath.Join(a.record, fmt.Sprintf("%s-%d.json", name, time.Now().UnixMilli()))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return r, o.starved, fmt.Errorf("keep the report: %w", err)
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, o.starved, fmt.Errorf("decode the report: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return r, o.starved, fmt.Errorf("decode the report: %w", err)
	}
	return r, o.starved, schema.Validate(doc)
}

// nameParts matches what does not belong into a file's name.
func nameParts() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) }

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
