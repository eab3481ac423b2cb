package text_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/text"
	"github.com/regpath/diagnose/playbooks"
)

func TestNotify(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	in := playbooks.Incident{ID: "i", Title: "CheckLatency\x1b[1mHigh", Severity: "P0", StartedAt: began, Alerts: make([]playbooks.Alert, 2)}
	done := in
	done.ResolvedAt = began.Add(12 * time.Minute)
	report := &playbooks.Report{Verdict: playbooks.CauseFound, Causes: []playbooks.Cause{{Title: "The filter is full", Confidence: playbooks.High}}}
	f := func(n notify.Notice, want string) {
		t.Helper()
		var b bytes.Buffer
		at, err := text.New(&b, notify.TextOptions{}).Notify(t.Context(), n)
		if err != nil || at.Sink != text.Name {
			t.Errorf("Notify = %+v, %v", at, err)
		}
		if got, _, _ := strings.Cut(b.String(), "\n"); got != want {
			t.Errorf("first line %q, want %q", got, want)
		}
	}
	f(notify.Notice{Incident: in, Checks: []string{"Bloom", "Redis"}}, `Looking into CheckLatency\x1b[1mHigh: Bloom, Redis [P0], 2 alerts`)
	f(notify.Notice{Incident: in, Phase: notify.Reported, Report: report}, "The filter is full (high confidence)")
	f(notify.Notice{Incident: in, Phase: notify.Reported}, `CheckLatency\x1b[1mHigh`)
	f(notify.Notice{Incident: in, Phase: notify.Reported, Note: "look\x07"}, `CheckLatency\x1b[1mHigh: look\a`)
	f(notify.Notice{Incident: done, Phase: notify.Resolved, Report: report}, "Resolved after 12 min: The filter is full (high confidence)")
	f(notify.Notice{Incident: done, Phase: notify.Resolved}, `Resolved after 12 min: CheckLatency\x1b[1mHigh`)
	f(notify.Notice{Incident: playbooks.Incident{StartedAt: done.ResolvedAt, ResolvedAt: began}, Phase: notify.Resolved}, "Resolved: unnamed incident")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func TestNotifyFails(t *testing.T) {
	t.Parallel()
	_, err := text.New(brokenPipe{}, notify.TextOptions{}).Notify(t.Context(), notify.Notice{})
	if notify.ClassOf(err) != notify.Unknown || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want an unknown outcome with the writer's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = text.New(brokenPipe{}, notify.TextOptions{}).Notify(ctx, notify.Notice{}); notify.ClassOf(err) != notify.Retry {
		t.Errorf("error %v for an ended context, want retry", err)
	}
}
