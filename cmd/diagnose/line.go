package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// line is the straight line from an incident to chat: say that the run has
// begun, run the playbook, say what came out, and say so again in the same
// place when the alert resolves. It implements webhook.Worker: every step is
// written down in the memo before the next, so that a repeated call goes on
// where the last one stopped.
type line struct {
	runner *playbooks.Runner
	// playbook is bound to the target.
	playbook *playbooks.Playbook
	target   string
	sinks    []sink
	logger   *slog.Logger
}

var _ webhook.Worker = (*line)(nil)

const memoReport = "report"

// Work implements webhook.Worker.
func (l *line) Work(ctx context.Context, in playbooks.Incident, memo webhook.Memo) error {
	in.Playbook, in.Target = l.playbook.Name, l.target
	report, err := recall[playbooks.Report](ctx, memo, memoReport)
	if err != nil {
		return err
	}
	if report == nil {
		// A sink that fails here is tried again with the report: the run must not wait for it.
		if err := l.tell(ctx, memo, notify.Notice{Incident: in, Phase: notify.Looking, Checks: l.checks()}); err != nil {
			l.logger.Warn("first notice not delivered", "incident", in.ID, "err", err)
		}
		if report, err = l.diagnose(ctx, in, memo); err != nil {
			return err
		}
	}
	phase := notify.Reported
	if !in.ResolvedAt.IsZero() {
		phase = notify.Resolved
	}
	return l.tell(ctx, memo, notify.Notice{Incident: in, Phase: phase, Report: report})
}

// checks names the steps of the playbook for a human.
func (l *line) checks() []string {
	var titles []string
	for _, s := range l.playbook.Steps {
		titles = append(titles, s.Title)
	}
	return titles
}

func (l *line) diagnose(ctx context.Context, in playbooks.Incident, memo webhook.Memo) (*playbooks.Report, error) {
	report := l.runner.Run(ctx, l.playbook, in)
	if err := ctx.Err(); err != nil {
		// The agent is stopping: what was cut short is no report. The next start runs it whole.
		return nil, err
	}
	l.logger.Info("diagnosed", "incident", in.ID, "verdict", report.Verdict, "duration_ms", report.DurationMS)
	return &report, remember(ctx, memo, memoReport, report)
}

// tell gives the notice to every sink; a failing sink does not keep it from the others.
func (l *line) tell(ctx context.Context, memo webhook.Memo, n notify.Notice) error {
	var errs []error
	for _, s := range l.sinks {
		if err := l.tellOne(ctx, memo, s, n); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// delivery is what the memo knows of one sink.
type delivery struct {
	// Tried is set before a notice leaves, Done after it was received: a Tried
	// without Done is an outcome that nobody knows.
	Tried   string         `json:"tried"`
	Done    string         `json:"done"`
	Receipt notify.Receipt `json:"receipt"`
}

func (l *line) tellOne(ctx context.Context, memo webhook.Memo, s sink, n notify.Notice) error {
	key := "sink/" + s.name
	d, err := recall[delivery](ctx, memo, key)
	if err != nil {
		return err
	}
	if d == nil {
		d = &delivery{}
	}
	want := stamp(n)
	if d.Done == want {
		return nil
	}
	n.Prior, n.Uncertain = d.Receipt, d.Tried != d.Done
	d.Tried = want
	if err := remember(ctx, memo, key, d); err != nil {
		return err
	}
	sendCtx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	receipt, err := s.Notify(sendCtx, n)
	if receipt != (notify.Receipt{}) {
		d.Receipt = receipt // even a failed notice may have got half through
	}
	switch {
	case err == nil:
		d.Done = want
	case notify.ClassOf(err) != notify.Unknown:
		d.Tried = d.Done // it certainly did not arrive
	}
	if err := remember(ctx, memo, key, d); err != nil {
		return err
	}
	return l.verdictOn(err, s, n)
}

// verdictOn says what a failed delivery leads to: what the sink will never take
// is told to the operator and left undelivered, until there is news; the rest
// is repeated, when the sink said so.
func (l *line) verdictOn(err error, s sink, n notify.Notice) error {
	var failure *notify.Error
	switch {
	case err == nil || !errors.As(err, &failure):
		return err
	case failure.Class == notify.Payload || failure.Class == notify.Destination || failure.Class == notify.Auth:
		l.logger.Error("notice is not deliverable", "incident", n.Incident.ID, "sink", s.name, "class", failure.Class.String(), "err", err)
		return nil
	case failure.RetryAfter > 0:
		return webhook.RetryAfter(err, failure.RetryAfter)
	}
	return err
}

// stamp tells notices apart: the same stamp need not be said twice.
func stamp(n notify.Notice) string {
	report, firing := "", 0
	if n.Report != nil {
		report = n.Report.ID
	}
	for _, a := range n.Incident.Alerts {
		if a.Firing {
			firing++
		}
	}
	return fmt.Sprintf("%d/%s/%d/%d/%d", n.Phase, report, len(n.Incident.Alerts), firing, n.Incident.HiddenAlerts)
}

func recall[T any](ctx context.Context, memo webhook.Memo, key string) (*T, error) {
	b, ok, err := memo.Get(ctx, key)
	if err != nil || !ok {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("recall %s: %w", key, err)
	}
	return v, nil
}

func remember(ctx context.Context, memo webhook.Memo, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("remember %s: %w", key, err)
	}
	return memo.Put(ctx, key, b)
}
