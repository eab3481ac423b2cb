package notify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

func TestHeadlineOfAnEnd(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	n := notify.Notice{
		Phase:    notify.Resolved,
		Incident: playbooks.Incident{Title: "Slow", StartedAt: start, ResolvedAt: start.Add(12 * time.Minute)},
	}
	for _, c := range []struct {
		recovery *playbooks.Recovery
		want     string
	}{
		{nil, "Resolved after 12 min: Slow"},
		{&playbooks.Recovery{Outcome: playbooks.RecoveredYes}, "Recovered after 12 min: Slow"},
		{&playbooks.Recovery{Outcome: playbooks.RecoveredNo}, "Resolved after 12 min, but NOT recovered: Slow"},
		{&playbooks.Recovery{Outcome: playbooks.RecoveredUnknown}, "Resolved after 12 min, cannot tell whether it has recovered: Slow"},
	} {
		n.Recovery = c.recovery
		if got := notify.Headline(n); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		n.Incident.Stale = true
		want := strings.Replace(c.want, "Resolved", "Not heard of any more", 1)
		if got := notify.Headline(n); got != want {
			t.Errorf("stale: got %q, want %q", got, want)
		}
		n.Incident.Stale = false
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		episode, today int
		want           string
	}{
		{0, 0, "Looking into Slow"},
		{1, 1, "Looking into Slow"},
		{2, 1, "Looking into Slow, again"},
		{2, 2, "Looking into Slow, again: 2nd time today"},
		{5, 3, "Looking into Slow, again: 3rd time today"},
		{12, 11, "Looking into Slow, again: 11th time today"},
		{30, 21, "Looking into Slow, again: 21st time today"},
		{200, 112, "Looking into Slow, again: 112th time today"},
	} {
		n := notify.Notice{Incident: playbooks.Incident{Title: "Slow", Episode: c.episode, EpisodesToday: c.today}}
		if got := notify.Headline(n); got != c.want {
			t.Errorf("episode %d, %d today: got %q, want %q", c.episode, c.today, got, c.want)
		}
	}
}

// TestRecoveryLines: what a second look saw is harmless, whatever the facts are
// called.
func TestRecoveryLines(t *testing.T) {
	t.Parallel()
	got := notify.RecoveryLines(&playbooks.Recovery{
		Because: "gone\x1b[2J\nreally",
		Facts: []playbooks.FactAgain{
			{Fact: "bloom.fill_ratio", Unit: probes.Ratio, Then: 0.97, Now: 0.1},
			{Fact: "redis.\u202eping", Unit: probes.Seconds, Then: 0.012, Unknown: true},
		},
	})
	want := []string{
		`Measured again after the alert resolved: gone\x1b[2J really`,
		"bloom.fill_ratio: 97 % then, 10 % now",
		`redis.\u202eping: 12 ms then, not measured now`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	if notify.RecoveryLines(nil) != nil {
		t.Error("lines without a second look")
	}
}
