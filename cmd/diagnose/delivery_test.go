package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/webhook"
)

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
	c := &carrier{line: &line{routing: always(&playbooks.Playbook{})}, sink: s}
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if err := c.Carry(ctx, in, memo); err != nil {
			t.Errorf("Carry: %v", err)
		}
	}
	if said != 1 {
		t.Errorf("the sink was told %d times, want once", said)
	}
	// What has not begun when the agent stops is left to the next one.
	in.Episode++
	if err := c.Carry(ctx, in, memo); err == nil || said != 1 {
		t.Errorf("after the stop: got error %v and %d deliveries, want an error and still 1", err, said)
	}
}

// TestFurther: a delivery that fails, but gets further each time, is repeated soon;
// one that does not waits longer each time.
func TestFurther(t *testing.T) {
	t.Parallel()
	first, second := notify.Receipt{Sink: "chat", Message: "1"}, notify.Receipt{Sink: "chat", Message: "1", Detail: "2"}
	memo, n := &memory{}, notify.Notice{}
	for i, attempt := range []struct {
		landed    notify.Receipt
		low, high time.Duration
	}{
		{notify.Receipt{}, 0, time.Second},
		{notify.Receipt{}, time.Second, 2 * time.Second},
		{first, 0, time.Second},
		{second, 0, time.Second},
		{second, 0, time.Second},
		{second, time.Second, 2 * time.Second},
		{second, 2 * time.Second, 4 * time.Second},
	} {
		_, err := deliver(t.Context(), memo, "chat", "all", n, func(context.Context, notify.Notice) (notify.Receipt, error) {
			return attempt.landed, &notify.Error{Class: notify.Retry, Err: errors.New("cut")}
		})
		if after, ok := webhook.RetryDelay(err); !ok || after < attempt.low || after > attempt.high {
			t.Errorf("attempt %d: got %v, repeated after %s, want %s to %s", i+1, err, after, attempt.low, attempt.high)
		}
	}
}

// TestDetailsFollow: what is to be said next is written down together with what has
// been said, so that no crash comes between the two; and only then.
func TestDetailsFollow(t *testing.T) {
	t.Parallel()
	var failure error
	s := sink{"chat", detailerFunc{func(context.Context, notify.Notice) (notify.Receipt, error) {
		return notify.Receipt{Sink: "chat", Message: "1"}, failure
	}}}
	in, memo := playbooks.Incident{ID: "a"}, &memory{}
	l := &line{routing: always(&playbooks.Playbook{}), sinks: []sink{s}}
	c := &carrier{line: l, sink: s}
	step := func(want ...string) {
		t.Helper()
		memo.sent = nil
		if err := c.Carry(t.Context(), in, memo); !errors.Is(err, failure) {
			t.Fatalf("Carry: %v", err)
		}
		if !slices.Equal(memo.sent, want) {
			t.Errorf("sent %q, want %q", memo.sent, want)
		}
	}
	step() // there is no report yet
	if err := l.tell(t.Context(), in, memo, &story{Report: &playbooks.Report{ID: "r"}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(memo.sent, []string{"chat"}) {
		t.Errorf("sent %q with the report, want chat", memo.sent)
	}
	failure = &notify.Error{Class: notify.Retry, Err: errors.New("cut")}
	step()
	failure = nil
	step("chat-details")
	step() // all is said
}

// TestSayMore: what a run has found so far is said in the first message, where it
// can be edited, once for each word, and never after the report; where such an
// edit may arrive late, the report is said twice.
func TestSayMore(t *testing.T) {
	t.Parallel()
	var told []string
	var failure error
	chat := notifierFunc(func(_ context.Context, n notify.Notice) (notify.Receipt, error) {
		what := "looking"
		if n.Report != nil {
			what = "report"
		}
		told = append(told, fmt.Sprint(what, len(n.Findings)))
		return notify.Receipt{Sink: "chat", Message: "1"}, failure
	})
	editable, printer := sink{"chat", detailerFunc{chat}}, sink{"printer", chat}
	l := &line{routing: always(&playbooks.Playbook{}), sinks: []sink{editable, printer}, logger: slog.New(slog.DiscardHandler)}
	in, memo := playbooks.Incident{ID: "a", Episode: 1}, &memory{}
	step := func(s sink, want ...string) {
		t.Helper()
		told, memo.sent = nil, nil
		if err := (&carrier{line: l, sink: s}).Carry(t.Context(), in, memo); err != nil {
			t.Fatalf("Carry: %v", err)
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	}
	found := []playbooks.Finding{{Step: "bloom", Facts: []probes.Fact{{Name: "x"}}}}
	step(editable, "looking0")
	step(printer, "looking0")
	memo.sent = nil
	l.progress(t.Context(), in, memo, found)
	if !slices.Equal(memo.sent, []string{"chat", "printer"}) {
		t.Errorf("sent %q, want both", memo.sent)
	}
	step(editable, "looking1")
	step(printer)
	failure = &notify.Error{Class: notify.Retry, RetryAfter: time.Second, Err: errors.New("no turn")}
	step(editable, "looking1") // not sent: the next one will do
	failure = &notify.Error{Class: notify.Retry, Err: errors.New("cut")}
	step(editable, "looking1")
	failure = nil
	if err := l.tell(t.Context(), in, memo, &story{Episode: 1, Report: &playbooks.Report{ID: "r"}}); err != nil {
		t.Fatal(err)
	}
	step(editable, "report0")
	if !slices.Contains(memo.sent, "chat") {
		t.Errorf("sent %q, want the report said once more", memo.sent)
	}
	step(editable, "report0")
	step(editable)
	step(printer, "report0")
	step(printer)
}

// TestSaidOnce: where alerts join or end, a sink that edits does; one that cannot says
// the same report no second time.
func TestSaidOnce(t *testing.T) {
	t.Parallel()
	told := 0
	say := notifierFunc(func(context.Context, notify.Notice) (notify.Receipt, error) {
		told++
		return notify.Receipt{Sink: "chat", Message: "1"}, nil
	})
	for _, tt := range []struct {
		sink sink
		want int
	}{{sink{"printer", say}, 1}, {sink{"chat", detailerFunc{say}}, 3}} {
		told = 0
		l, memo := &line{routing: always(&playbooks.Playbook{}), sinks: []sink{tt.sink}}, &memory{}
		in := playbooks.Incident{ID: "a", Episode: 1, Alerts: []playbooks.Alert{{Fingerprint: "1", Firing: true}}}
		if err := l.tell(t.Context(), in, memo, &story{Episode: 1, Report: &playbooks.Report{ID: "r"}}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := (&carrier{line: l, sink: tt.sink}).Carry(t.Context(), in, memo); err != nil {
				t.Fatalf("Carry: %v", err)
			}
			in.Alerts = append(in.Alerts, playbooks.Alert{Fingerprint: strconv.Itoa(len(in.Alerts) + 1), Firing: true})
		}
		if told != tt.want {
			t.Errorf("%s: told %d times, want %d", tt.sink.name, told, tt.want)
		}
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

// TestPatience: the unluckiest of many messages is not kept waiting for minutes, and an
// outage of a day is outlasted.
func TestPatience(t *testing.T) {
	t.Parallel()
	waited := func(attempts int) (sum time.Duration) {
		for vain := 1; vain <= attempts; vain++ {
			sum += webhook.Backoff(patience(vain))
		}
		return sum
	}
	if d := waited(12); d > 3*time.Minute {
		t.Errorf("12 attempts take %v, want 3 minutes at most", d)
	}
	if d := waited(299); d < 20*time.Hour {
		t.Errorf("the last attempt is after %v, want most of a day", d)
	}
}
