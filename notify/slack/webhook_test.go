package slack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
)

func TestWebhookLife(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	w := newWebhook(t, s.WebhookURL())
	n := notify.Notice{Incident: incident()}
	n.Prior = must(t, w, n)
	if len(s.Messages()) != 0 || n.Prior.Sink != "slack-webhook" {
		t.Errorf("%d messages while looking, receipt %+v; want none", len(s.Messages()), n.Prior)
	}
	n.Phase, n.Report = notify.Reported, loadReport(t, "cause-found")
	n.Prior = must(t, w, n)
	if got := only(t, s); !strings.HasPrefix(got.FirstLine(), "🔴 The query path writes to the Bloom filter") || got.Blocks == nil {
		t.Errorf("report begins %q", got.FirstLine())
	}
	n.Phase, n.Incident.ResolvedAt = notify.Resolved, began.Add(time.Hour)
	n.Prior = must(t, w, n) // the second look is still to come
	n.Recovery = &playbooks.Recovery{Outcome: playbooks.RecoveredYes, Because: "what named the cause was measured again and is gone"}
	n.Prior = must(t, w, n)
	n.Prior = must(t, w, n) // twice: no second line
	all := s.Messages()
	if len(all) != 2 {
		t.Fatalf("%d messages, want 2", len(all))
	}
	if got, want := all[1].Visible(), "✅ Recovered after 1 h: The query path writes to the Bloom filter (high confidence) · incident inc-7f3a\n"+
		"Measured again after the alert resolved: what named the cause was measured again and is gone"; got != want {
		t.Errorf("resolved says %q, want %q", got, want)
	}
	clean(t, s)
}

// TestWebhookNote: what nothing is run for is said too, and its end, once each.
func TestWebhookNote(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	w := newWebhook(t, s.WebhookURL())
	n := notify.Notice{Incident: incident(), Phase: notify.Reported, Note: "look <!here>"}
	n.Prior = must(t, w, n)
	n.Phase, n.Incident.ResolvedAt = notify.Resolved, began.Add(time.Hour)
	n.Prior = must(t, w, n)
	n.Prior = must(t, w, n)
	all := s.Messages()
	if len(all) != 2 || !strings.Contains(all[0].Visible(), "look <!here>") || !strings.HasPrefix(all[1].Visible(), "✅ Resolved after 1 h") {
		t.Errorf("got %d messages, want the note and its end: %+v", len(all), all)
	}
	clean(t, s)
}

func TestWebhookFallsBackToPlainText(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	s.Script("webhook", slacktest.Status(400, "invalid_blocks"))
	must(t, newWebhook(t, s.WebhookURL()), notify.Notice{Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "healthy")})
	if m := only(t, s); m.Markup || m.Blocks != nil || !strings.HasPrefix(m.Text, "🟢 Healthy") {
		t.Errorf("posted %q with blocks %s, want plain text", m.Text, m.Blocks)
	}
}

func TestWebhookGone(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	_, e := fails(t, newWebhook(t, s.WebhookURL()+"x"), notify.Notice{Incident: incident(), Phase: notify.Reported}, notify.Destination)
	if !strings.Contains(e.Error(), "no_service") || e.Hint == "" {
		t.Errorf("error %q with hint %q", e.Error(), e.Hint)
	}
}
