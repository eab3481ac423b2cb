package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// memory is a memo without a store.
type memory struct {
	mu   sync.Mutex
	kept map[string][]byte
}

var _ webhook.Memo = (*memory)(nil)

func (m *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.kept[key]
	return v, ok, nil
}

// Put keeps the promise of webhook.Memo: the end of the context is no obstacle.
func (m *memory) Put(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string][]byte{}
	}
	m.kept[key] = value
	return nil
}

// Send has nobody to send.
func (m *memory) Send(context.Context, ...string) error { return nil }

func (m *memory) Attempt() int { return 1 }

// notifierFunc is a sink made of a function.
type notifierFunc func(ctx context.Context, n notify.Notice) (notify.Receipt, error)

func (f notifierFunc) Notify(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	return f(ctx, n)
}

// TestReceiptOutlastsTheStop: the agent is told to stop while a sink answers.
// The delivery is brought to its end, remembered, and not repeated by the next
// agent.
func TestReceiptOutlastsTheStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	said := 0
	s := sink{"chat", notifierFunc(func(sending context.Context, n notify.Notice) (notify.Receipt, error) {
		said++
		if n.Uncertain {
			t.Error("a delivery that was answered is of unknown outcome")
		}
		stop()
		<-ctx.Done()
		if err := sending.Err(); err != nil {
			t.Errorf("the stop cut off a delivery that had begun: %v", err)
		}
		return notify.Receipt{Sink: "chat", Message: "1"}, nil
	})}
	memo := &memory{}
	in := playbooks.Incident{ID: "a", ResolvedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	c := &carrier{line: &line{playbook: &playbooks.Playbook{}}, sink: s}
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if err := c.Carry(ctx, in, memo); err != nil {
			t.Errorf("Carry: %v", err)
		}
	}
	if said != 1 {
		t.Errorf("the sink was told %d times, want once", said)
	}
	// What has not begun when the agent stops is left to the next one.
	in.HiddenAlerts++
	if err := c.Carry(ctx, in, memo); err == nil || said != 1 {
		t.Errorf("after the stop: got error %v and %d deliveries, want an error and still 1", err, said)
	}
}

// TestStopInMidDelivery ends the agent with SIGTERM while Slack takes its time
// to answer: an incoming webhook cannot be asked what became of a message, so
// that only the memory keeps the next agent from saying it twice.
func TestStopInMidDelivery(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	chat := slacktest.Start(t)
	answer := make(chan struct{})
	chat.Script("webhook", slacktest.Slow(answer))
	config := fmt.Sprintf(`
store: %q
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
notify: [{slack_webhook: {url: %q}}]
`, filepath.Join(t.TempDir(), "diagnose.db"), canary, target.URL, chat.WebhookURL())

	first, hook := startAgent(t, config)
	if got := postAlert(t, hook); got != http.StatusOK {
		t.Fatalf("post: got status %d, want 200", got)
	}
	eventually(t, "the report is with Slack", 30*time.Second, func() bool { return len(chat.Roots()) == 1 })
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent takes no more alerts", 10*time.Second, func() bool { return !answers(t, readyURL(hook)) })
	close(answer)
	if err := first.Wait(); err != nil {
		t.Errorf("the agent did not stop in order: %v", err)
	}

	_, hook = startAgent(t, config)
	if got := postAlert(t, hook); got != http.StatusOK {
		t.Errorf("repeat: got status %d, want 200", got)
	}
	// The end of the alert is worked on after all that was left over.
	if got := postResolved(t, hook); got != http.StatusOK {
		t.Errorf("resolve: got status %d, want 200", got)
	}
	eventually(t, "the end is told", 30*time.Second, func() bool { return len(chat.Roots()) > 1 })
	roots := chat.Roots()
	if len(roots) != 2 {
		t.Fatalf("got %d messages, want the report once and its end once", len(roots))
	}
	contains(t, "first message", roots[0].FirstLine(), "Cannot tell")
	contains(t, "second message", roots[1].FirstLine(), "Resolved")
}
