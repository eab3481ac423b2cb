package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/webhook"
)

// incidentsFlags are the flags of `diagnose incidents`.
type incidentsFlags struct {
	config, store, state, output string
	pending, undelivered, stats  bool
	since                        time.Duration
	limit                        int
}

func newIncidents(std streams) *cobra.Command {
	var f incidentsFlags
	cmd := &cobra.Command{
		Use:        "incidents [ID]",
		SuggestFor: []string{"incident", "list", "ls"},
		Short:      "List the incidents of an agent, or show the report of one",
		Long: `incidents lists what is in the agent's store, the latest first. The agent may be
running. With an ID it shows that incident and its report.`,
		Example: `  diagnose incidents --config diagnose.yml --undelivered
  diagnose incidents --config diagnose.yml 20261130-101502-k3x7q2ma`,
		Args: shell.Arguments(0, 1, "at most one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), strings.Join(args, ""), std)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file, which names the store")
	fs.StringVar(&f.store, "store", "", "the file of the store itself")
	fs.StringVar(&f.state, "state", "", "only those that are open, resolved or stale")
	fs.BoolVar(&f.pending, "pending", false, "only those with news that has not been worked through")
	fs.BoolVar(&f.undelivered, "undelivered", false, "only those with news that a sink has not been told")
	fs.BoolVar(&f.stats, "stats", false, "count reports by what they found, and the marks that people gave them")
	fs.DurationVar(&f.since, "since", 0, "only those opened within this time (default all)")
	fs.IntVar(&f.limit, "limit", 100, "how many at most")
	fs.StringVar(&f.output, "output", "text", "text or json")
	return cmd
}

func (f *incidentsFlags) run(ctx context.Context, id string, std streams) error {
	store, filter, err := f.resolve(id)
	if err != nil {
		return err
	}
	rows, err := webhook.List(ctx, store, filter)
	if err != nil {
		return err
	}
	switch {
	case f.stats:
		return f.writeStats(ctx, store, rows, std.out)
	case id != "" && len(rows) == 0:
		return fmt.Errorf("no incident %q in the store", id)
	case id != "":
		return f.showOne(ctx, store, rows[0], std.out)
	case f.output == "json":
		return writeJSON(std.out, rows)
	}
	return writeIncidents(std.out, rows)
}

// resolve turns the flags into a store and what is wanted of it.
func (f *incidentsFlags) resolve(id string) (string, webhook.Filter, error) {
	states := []string{string(webhook.StateOpen), string(webhook.StateResolved), string(webhook.StateStale)}
	filter := webhook.Filter{ID: id, State: webhook.State(f.state), Pending: f.pending, Undelivered: f.undelivered, Limit: f.limit}
	switch {
	case (f.config == "") == (f.store == ""):
		return "", filter, errors.New("give the store either by --config FILE or by --store FILE")
	case f.output != "text" && f.output != "json":
		return "", filter, fmt.Errorf("--output: want text or json, got %q", f.output)
	case f.state != "" && !slices.Contains(states, f.state):
		return "", filter, fmt.Errorf("--state %q: %s", f.state, shell.OneOf(f.state, states))
	case f.since < 0:
		return "", filter, fmt.Errorf("--since: want how long ago, such as 24h, got %v", f.since)
	case f.limit < 1:
		return "", filter, fmt.Errorf("--limit: want at least 1, got %d", f.limit)
	}
	if f.since > 0 {
		filter.Since = time.Now().Add(-f.since)
	}
	if f.store != "" {
		if err := checkStore(f.store); err != nil {
			return "", filter, fmt.Errorf("--store: %w; expected the file of an agent's store", err)
		}
		return f.store, filter, nil
	}
	c, err := loadConfig(f.config, func(c *config, bad complain) error {
		if !c.Store.given() {
			bad("store", "is needed", "the store of the agent")
		}
		follow(c.secrets()[:1], bad)
		return nil
	})
	if err != nil {
		return "", filter, err
	}
	return c.Store.Reveal(), filter, nil
}

// showOne writes one incident with its report, if there is one.
func (f *incidentsFlags) showOne(ctx context.Context, store string, row webhook.IncidentRow, out io.Writer) error {
	raw, ok, err := webhook.Kept(ctx, store, row.ID, memoStory)
	if err != nil {
		return err
	}
	var told story
	if ok {
		if err := json.Unmarshal(raw, &told); err != nil {
			return fmt.Errorf("read the report of %s: %w", row.ID, err)
		}
	}
	if f.output == "json" {
		return writeJSON(out, struct {
			webhook.IncidentRow
			Story story `json:"story"`
		}{row, told})
	}
	if err := writeIncidents(out, []webhook.IncidentRow{row}); err != nil || told.Report == nil {
		return err
	}
	if _, err := fmt.Fprintln(out, strings.Join(append([]string{""}, outcome(row, told)...), "\n")); err != nil {
		return err
	}
	return notify.Text(out, *told.Report, notify.TextOptions{Detail: notify.Full})
}

// outcome says how the incident ended and what the second look saw, as chat does,
// and closes with an empty line; nothing while the incident is open.
func outcome(row webhook.IncidentRow, told story) []string {
	if row.ResolvedAt.IsZero() || told.Episode != row.Episode {
		return nil
	}
	n := notify.Notice{Phase: notify.Resolved, Report: told.Report}
	n.Incident.StartedAt, n.Incident.ResolvedAt, n.Incident.Title = row.StartedAt, row.ResolvedAt, row.Title
	n.Incident.Stale = row.State == webhook.StateStale
	if told.ResolvedAt.Equal(row.ResolvedAt) {
		n.Recovery = told.Recovery
	}
	return append(append([]string{notify.Headline(n)}, notify.RecoveryLines(n.Recovery)...), "", "The report, from before:", "")
}

// writeStats writes how often each cause was reported, and how it was marked.
func (f *incidentsFlags) writeStats(ctx context.Context, store string, rows []webhook.IncidentRow, out io.Writer) error {
	all, err := stats(ctx, store, rows)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return writeJSON(out, all)
	}
	for _, s := range all {
		if _, err := fmt.Fprintf(out, "%-28s %s, marked right %s, wrong %s\n", notify.Line(s.Verdict, 60), notify.Count(s.Reports, "report"),
			notify.Count(s.Right, "time"), notify.Count(s.Wrong, "time")); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		_, err = fmt.Fprintln(out, "no reports")
	}
	return err
}

// writeIncidents writes a line for each incident, and one below it for each sink
// that has not been told. Nothing in them can act on a terminal.
func writeIncidents(out io.Writer, rows []webhook.IncidentRow) error {
	var b strings.Builder
	for _, r := range rows {
		state := string(r.State)
		if r.Pending {
			state += ", being worked on since " + notify.Clock(r.PendingSince)
		}
		fmt.Fprintf(&b, "%s  %s  %s  %s of %s firing  %s\n", r.ID, state, orNone(notify.Line(r.Severity, 20)),
			notify.Value(float64(r.Firing), probes.Count), notify.Count(r.Alerts, "alert"), notify.Line(r.Title, 80))
		if r.Error != "" {
			fmt.Fprintf(&b, "    work failed %s: %s\n", notify.Count(r.Attempts, "time"), notify.Line(r.Error, 300))
		}
		for _, d := range r.Undelivered {
			fmt.Fprintf(&b, "    not told to %s since %s", d.Courier, notify.Clock(d.Since))
			if d.Error != "" {
				fmt.Fprintf(&b, ": %s", notify.Line(d.Error, 300))
			}
			b.WriteByte('\n')
		}
	}
	if len(rows) == 0 {
		b.WriteString("none\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
