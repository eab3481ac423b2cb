package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
)

// replayFlags are the flags of `diagnose replay`.
type replayFlags struct {
	playbook, file, output string
	verbose                bool
}

func newReplay(std streams) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:        "replay FILE",
		SuggestFor: []string{"judge"},
		Short:      "Judge a recorded run again, offline",
		Long: `replay judges again what a run saw. FILE is what run --record or run --output json
wrote: a report holds all the evidence that it was judged from. By the playbook
that made it the report comes out the same to the byte; by another one it shows
what that one would have said. Nothing is measured.

The exit codes are those of run.`,
		Example: `  diagnose run --config diagnose.yml --record incident.json
  diagnose replay incident.json --playbook-file improved.yaml`,
		Args: shell.Arguments(1, 1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args[0], std) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.playbook, "playbook", "", "built-in playbook to judge by (default the one that was run)")
	fs.StringVar(&f.file, "playbook-file", "", "file with the playbook to judge by")
	fs.StringVar(&f.output, "output", "text", "text or json")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show all facts and all that could not be told")
	return cmd
}

func (f *replayFlags) run(path string, std streams) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output: want text or json, got %q", f.output)
	}
	recorded, err := readRecording(path)
	if err != nil {
		return err
	}
	p, err := f.choose(recorded)
	if err != nil {
		return err
	}
	report := playbooks.Replay(p, recorded)
	detail := notify.Digest
	if f.verbose {
		detail = notify.Full
	}
	if err := writeDetail(std.out, report, f.output, detail); err != nil {
		return err
	}
	return exitFor(report.Verdict)
}

// readRecording reads a report from a file.
func readRecording(path string) (playbooks.Report, error) {
	data, err := shell.ReadFile(path, shell.MaxRecording)
	if err != nil {
		return playbooks.Report{}, fmt.Errorf("read recording: %w", err)
	}
	r, err := playbooks.ReadReport(data)
	if err != nil {
		return playbooks.Report{}, fmt.Errorf("read recording: %s: %w; want what run --record or run --output json wrote", path, err)
	}
	return r, nil
}

// choose returns the playbook to judge by. Nothing is measured, so its probes
// have no target.
func (f *replayFlags) choose(recorded playbooks.Report) (*playbooks.Playbook, error) {
	catalog := (&target{}).catalog()
	if f.file != "" {
		if f.playbook != "" {
			return nil, errors.New("give the playbook either by --playbook or by --playbook-file")
		}
		file, err := readPlaybook(f.file)
		if err != nil {
			return nil, fmt.Errorf("read playbook: %w", err)
		}
		loaded, err := playbooks.Load(catalog, file)
		if err != nil {
			return nil, err
		}
		return loaded[0], nil
	}
	byName, err := loadPlaybooks(catalog, nil)
	if err != nil {
		return nil, err
	}
	if f.playbook != "" {
		return pick(byName, f.playbook)
	}
	p, ok := byName[recorded.Playbook]
	if !ok {
		return nil, fmt.Errorf("the recording was judged by the playbook %q, which is not built in: give one by --playbook-file", recorded.Playbook)
	}
	return p, nil
}
