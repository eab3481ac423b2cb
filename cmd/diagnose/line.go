package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// line is the straight line from an incident to chat. It runs the playbook and
// writes the report down; a carrier for each sink says what there is to say: that
// the run has begun, what came out, that the alert has resolved. Whatever is done
// is in the memo before the next thing is, so that a repeated call goes on where
// the last one stopped.
type line struct {
	runs *runs
	// routing is that of the configuration in force.
	routing func() *routing
	sinks   []sink
	logger  *slog.Logger
}

var _ webhook.Worker = (*line)(nil)

// story is what the memo keeps of an incident's runs.
type story struct {
	// Episode is the one that Report is about.
	Episode int               `json:"episode"`
	Report  *playbooks.Report `json:"report"`
	// Recovery is of the end at ResolvedAt; nil before it was checked.
	Recovery   *playbooks.Recovery `json:"recovery,omitempty"`
	ResolvedAt time.Time           `json:"resolved_at,omitzero"`
}

const memoStory = "story"

// soFar is what the memo keeps of a run that goes on.
type soFar struct {
	Episode  int                 `json:"episode"`
	Findings []playbooks.Finding `json:"findings"`
}

const memoSoFar = "so-far"

// progress tells what a run that goes on has found, on the first of the incidents that
// wait for it: after a storm hundreds do, and telling all of them would take longer
// than the run.
func (l *line) progress(ctx context.Context, in playbooks.Incident, memo webhook.Memo, found []playbooks.Finding) {
	if !in.ResolvedAt.IsZero() {
		return
	}
	said := soFar{Episode: in.Episode}
	for _, f := range found { // what is said of them: the evidence is the report's
		said.Findings = append(said.Findings, playbooks.Finding{Step: f.Step, Title: f.Title, Status: f.Status, NotLookedAt: f.NotLookedAt, Summary: f.Summary, Error: f.Error})
	}
	if err := remember(ctx, memo, memoSoFar, said, l.audience(in.Alerts)...); err != nil {
		l.logger.WarnContext(ctx, "what was found so far is not told", "incident", in.ID, "err", err)
	}
}

// Work implements webhook.Worker: one run for each episode, and a second one when
// it has ended, to see whether what named the cause is gone.
func (l *line) Work(ctx context.Context, in playbooks.Incident, memo webhook.Memo) error {
	if in.Trigger == webhook.TriggerWatchdog {
		return nil // no service is sick: all there is to say is that
	}
	s, err := recall[story](ctx, memo, memoStory)
	if err != nil {
		return err
	}
	in = l.placed(in)
	var last *playbooks.Report // of this call
	if s == nil || s.Episode != in.Episode {
		if last, err = l.diagnose(ctx, in, l.runs.since(in)); err != nil {
			return err
		}
		l.logger.Info("diagnosed", "incident", in.ID, "verdict", last.Verdict, "duration_ms", last.DurationMS)
		s = &story{Episode: in.Episode, Report: last}
		if err := l.tell(ctx, in, memo, s); err != nil {
			return err
		}
	}
	if in.ResolvedAt.IsZero() || s.checked(in) {
		return nil
	}
	if last == nil || last.StartedAt.Before(in.ResolvedAt) {
		if last, err = l.diagnose(ctx, in, l.runs.now()); err != nil {
			return err
		}
	}
	recovery := playbooks.CheckRecovery(*s.Report, *last)
	l.logger.Info("recovery checked", "incident", in.ID, "outcome", recovery.Outcome, "because", recovery.Because)
	s.Recovery, s.ResolvedAt = &recovery, in.ResolvedAt
	return l.tell(ctx, in, memo, s)
}

// checked reports whether the end of the incident has been looked into.
func (s *story) checked(in playbooks.Incident) bool {
	return s.Recovery != nil && s.ResolvedAt.Equal(in.ResolvedAt)
}

// tell writes the story down and has it carried to every sink that hears of the incident:
// those of its route, and those that spoke of it before it came to that.
func (l *line) tell(ctx context.Context, in playbooks.Incident, memo webhook.Memo, s *story) error {
	hear := l.audience(in.Alerts)
	for _, one := range l.sinks {
		if slices.Contains(hear, one.name) {
			continue
		}
		said, err := l.spoke(ctx, memo, one.name)
		if err != nil {
			return err
		}
		if said {
			hear = append(hear, one.name)
		}
	}
	return remember(ctx, memo, memoStory, s, hear...)
}

// spoke reports whether a sink has said anything about the incident of the memo.
func (l *line) spoke(ctx context.Context, memo webhook.Memo, sink string) (bool, error) {
	_, said, err := memo.Get(ctx, sinkKey(sink))
	return said, err
}

// placed says in the incident what is run on what.
func (l *line) placed(in playbooks.Incident) playbooks.Incident {
	r := l.routing().of(in)
	in.Playbook, in.Target = r.playbook.Name, r.target
	return in
}

// diagnose runs the playbook, or shares a run that tells how things stood at since.
func (l *line) diagnose(ctx context.Context, in playbooks.Incident, since time.Time) (*playbooks.Report, error) {
	report, err := l.runs.report(ctx, l.routing().of(in).playbook, in, since)
	if err != nil {
		// The agent is stopping: what was cut short is no report. The next start runs it whole.
		return nil, err
	}
	return &report, nil
}

// notice is what there is to say about the incident now.
func (l *line) notice(ctx context.Context, in playbooks.Incident, memo webhook.Memo) (notify.Notice, error) {
	if in.Trigger == webhook.TriggerWatchdog {
		return pipeNotice(in), nil
	}
	n := notify.Notice{Incident: l.placed(in)}
	s, err := recall[story](ctx, memo, memoStory)
	if err != nil {
		return n, err
	}
	if s != nil && s.Episode == in.Episode {
		n.Report = s.Report
		if s.checked(in) {
			n.Recovery = s.Recovery
		}
	}
	switch {
	case !in.ResolvedAt.IsZero():
		n.Phase = notify.Resolved
	case n.Report != nil:
		n.Phase = notify.Reported
	default:
		n.Checks = l.checks(in)
		found, err := recall[soFar](ctx, memo, memoSoFar)
		if err != nil {
			return n, err
		}
		if found != nil && found.Episode == in.Episode {
			n.Findings = found.Findings
		}
	}
	return n, nil
}

// checks names the steps of the playbook for a human.
func (l *line) checks(in playbooks.Incident) []string {
	var titles []string
	for _, s := range l.routing().of(in).playbook.Steps {
		titles = append(titles, s.Title)
	}
	return titles
}

// audience names the carriers of the sinks that hear of an incident with these alerts.
func (l *line) audience(alerts []playbooks.Alert) []string {
	r := l.routing().of(playbooks.Incident{Alerts: alerts})
	var names []string
	for _, s := range l.sinks {
		if r.tells(s.name) {
			names = append(names, s.name)
		}
	}
	return names
}

// carriers are the couriers of all sinks, as the inbox wants them.
func (l *line) carriers() map[string]webhook.Courier {
	all := map[string]webhook.Courier{}
	for _, s := range l.sinks {
		all[s.name] = &carrier{line: l, sink: s}
	}
	return all
}

// detailCarriers follow the carriers of the sinks that have room for details.
func (l *line) detailCarriers() map[string]webhook.Courier {
	all := map[string]webhook.Courier{}
	for _, s := range l.sinks {
		if d, ok := s.Notifier.(notify.Detailer); ok {
			all[detailsOf(s.name)] = &detailCarrier{line: l, sink: s, detailer: d}
		}
	}
	return all
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

func remember(ctx context.Context, memo webhook.Memo, key string, v any, couriers ...string) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("remember %s: %w", key, err)
	}
	return memo.Put(ctx, key, b, couriers...)
}
