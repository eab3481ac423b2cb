package slack_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/notify/slack/slacktest"
)

// S21: a burst of incidents against one message a second and channel: every one
// ends with its message, whatever Slack refuses in between.
func TestS21Burst(t *testing.T) {
	t.Parallel()
	const incidents, interval = 12, 50 * time.Millisecond
	s := slacktest.Start(t)
	s.Limit(interval)
	b := newBot(t, s, func(c *slack.BotConfig) { c.PostEvery = interval })
	var wg sync.WaitGroup
	for i := range incidents {
		wg.Go(func() {
			n := notify.Notice{Incident: incident()}
			n.Incident.ID = fmt.Sprint("inc-", i)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for {
				_, err := b.Notify(ctx, n)
				if err == nil {
					return
				}
				if notify.ClassOf(err) != notify.Retry {
					t.Errorf("class %v: %v", notify.ClassOf(err), err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := len(s.Roots()); got != incidents {
		t.Errorf("%d messages, want %d", got, incidents)
	}
	clean(t, s)
}

// A channel that asked to be left alone is not asked again before: whoever has no
// time to wait is told so, and sends nothing.
func TestPaceHeedsRetryAfter(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	b := newBot(t, s, func(c *slack.BotConfig) { c.PostEvery = time.Millisecond })
	s.Script("chat.postMessage", slacktest.RateLimited("40"))
	n := notify.Notice{Incident: incident()}
	fails(t, b, n, notify.Retry)
	calls := len(s.Calls())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := b.Notify(ctx, n)
	e, ok := err.(*notify.Error) //nolint:errorlint // sinks return it unwrapped
	if !ok || e.Class != notify.Retry || e.RetryAfter <= 0 || e.RetryAfter > 40*time.Second {
		t.Errorf("got %v, want to be sent away for the rest of 40 s", err)
	}
	if got := len(s.Calls()); got != calls {
		t.Errorf("%d calls after the refusal, want none", got-calls)
	}
}

// What does not get into the channel goes to the fallback, stays there, and says
// why (S19, S20).
func TestFallbackChannel(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"channel_not_found", "not_in_channel", "is_archived", "restricted_action"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := slacktest.Start(t)
			s.AddChannel("C0SPARE", "spare", true)
			b := newBot(t, s, func(c *slack.BotConfig) { c.Fallback = "C0SPARE" })
			s.Script("chat.postMessage", slacktest.Fail(code))
			n := notify.Notice{Incident: incident()}
			n.Prior = must(t, b, n)
			if n.Prior.Channel != "C0SPARE" || !strings.Contains(n.Prior.Instead, code) {
				t.Fatalf("receipt %+v, want it in the fallback channel because of %s", n.Prior, code)
			}
			n.Phase, n.Report = notify.Reported, loadReport(t, "cause-found")
			n.Prior = must(t, b, n)
			m := only(t, s)
			for _, text := range []string{m.Visible(), m.Text} {
				if !strings.Contains(text, "meant for another channel") || !strings.Contains(text, code) {
					t.Errorf("the message does not say why it is here:\n%s", text)
				}
			}
			if m.Channel != "C0SPARE" || len(m.Edits) != 1 || len(s.Replies(m)) == 0 {
				t.Errorf("channel %s, %d edits, %d replies; want one message with its thread", m.Channel, len(m.Edits), len(s.Replies(m)))
			}
			clean(t, s)
		})
	}
	t.Run("archived later", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		s.AddChannel("C0SPARE", "spare", true)
		b := newBot(t, s, func(c *slack.BotConfig) { c.Fallback = "C0SPARE" })
		n := notify.Notice{Incident: incident()}
		n.Prior = must(t, b, n)
		s.Archive(slacktest.ChannelID)
		n.Phase, n.Report = notify.Reported, loadReport(t, "cause-found")
		if at := must(t, b, n); at.Channel != "C0SPARE" {
			t.Errorf("receipt %+v, want it in the fallback channel", at)
		}
	})
	t.Run("neither", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b := newBot(t, s, func(c *slack.BotConfig) { c.Fallback = "C0SPARE" })
		s.Archive(slacktest.ChannelID)
		_, e := fails(t, b, notify.Notice{Incident: incident()}, notify.Destination)
		if !strings.Contains(e.Error(), "is_archived") || !strings.Contains(e.Error(), "channel_not_found") {
			t.Errorf("got %q, want both reasons", e.Error())
		}
	})
}
