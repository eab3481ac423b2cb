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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/webhook"
)

// memory is a memo without a store.
type memory struct {
	mu   sync.Mutex
	kept map[string][]byte
	sent []string
}

var _ webhook.Memo = (*memory)(nil)

func (m *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.kept[key]
	return v, ok, nil
}

// Put keeps the promise of webhook.Memo: the end of the context is no obstacle.
func (m *memory) Put(_ context.Context, key string, value []byte, couriers ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string][]byte{}
	}
	m.kept[key] = value
	m.sent = append(m.sent, couriers...)
	return nil
}

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

// detailerFunc is a sink with room for details.
type detailerFunc struct{ notifierFunc }

func (f detailerFunc) Detail(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	return f.notifierFunc(ctx, n)
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

// TestRouteMoves: a sink that is called though the route leads elsewhere by now passes the
// incident on, unless it has said something: then it goes on to, and so does the report.
func TestRouteMoves(t *testing.T) {
	t.Parallel()
	told := map[string]int{}
	named := func(name string) sink {
		return sink{name, notifierFunc(func(context.Context, notify.Notice) (notify.Receipt, error) {
			told[name]++
			return notify.Receipt{Sink: name, Message: "1"}, nil
		})}
	}
	night, day := named("night"), named("day")
	to := "night"
	p := &playbooks.Playbook{}
	l := &line{sinks: []sink{night, day}, routing: func() *routing { return &routing{routes: []route{{playbook: p, sinks: []string{to}}}} }}
	in, memo := playbooks.Incident{ID: "a", Episode: 1}, &memory{}
	carry := func(s sink, sent string, nights, days int) {
		t.Helper()
		memo.sent = nil
		if err := (&carrier{line: l, sink: s}).Carry(t.Context(), in, memo); err != nil {
			t.Fatalf("Carry: %v", err)
		}
		if got := strings.Join(memo.sent, " "); got != sent || told["night"] != nights || told["day"] != days {
			t.Errorf("sent to %q, told %v, want sent to %q, %d of night and %d of day", got, told, sent, nights, days)
		}
	}
	carry(day, "night", 0, 0) // it was called under another configuration
	carry(night, "", 1, 0)
	to = "day"
	memo.sent = nil
	if err := l.tell(t.Context(), in, memo, &story{Episode: 1, Report: &playbooks.Report{ID: "r"}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(memo.sent, " "); got != "day night" {
		t.Errorf("the report is sent to %q, want day, and night, which began to tell", got)
	}
	carry(night, "", 2, 0)
	carry(day, "", 2, 1)
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

// TestRecoveryCheck: when the alert resolves the playbook is run again. Where
// Redis, whose loss was the cause, is still away, the message says so; where it
// is back, the incident has recovered.
func TestRecoveryCheck(t *testing.T) {
	t.Parallel()
	f := func(name string, back bool, want string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pings atomic.Int32
			catalog := probes.Catalog{"rediscache": {
				Facts: []probes.FactDoc{{Name: "reachable", Unit: probes.Bool}},
				New: func(func(any) error) (probes.Probe, error) {
					return probeFunc(func(context.Context) (probes.Evidence, error) {
						up := 0.0
						if pings.Add(1) > 1 && back {
							up = 1
						}
						return probes.Evidence{Source: "redis", At: time.Now(), Facts: []probes.Fact{{Name: "reachable", Value: up, Unit: probes.Bool}}}, nil
					}), nil
				},
			}}
			loaded, err := playbooks.Load(catalog, playbooks.File{Name: "tiny.yaml", Data: []byte(tiny)})
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			chat := sink{"chat", notifierFunc(func(_ context.Context, n notify.Notice) (notify.Receipt, error) {
				told = append(told, notify.Headline(n))
				return notify.Receipt{Sink: "chat"}, nil
			})}
			l := &line{runs: newRuns(&playbooks.Runner{}), routing: always(loaded[0]), sinks: []sink{chat}, logger: slog.New(slog.DiscardHandler)}
			c, memo := &carrier{line: l, sink: chat}, &memory{}
			in := playbooks.Incident{ID: "a", Title: "Slow", StartedAt: time.Now().Add(-time.Minute)}
			step := func(work bool) {
				t.Helper()
				if work {
					if err := l.Work(t.Context(), in, memo); err != nil {
						t.Fatalf("Work: %v", err)
					}
				}
				if err := c.Carry(t.Context(), in, memo); err != nil {
					t.Fatalf("Carry: %v", err)
				}
			}
			step(false)
			step(true)
			in.ResolvedAt = in.StartedAt.Add(30 * time.Second)
			step(false)
			step(true)
			step(true) // nothing is measured or said again
			if got := pings.Load(); got != 2 {
				t.Errorf("measured %d times, want twice", got)
			}
			wants := []string{"Looking into Slow", "Redis is down (", "Resolved after 30 s: Redis is down", want}
			if len(told) != len(wants) {
				t.Fatalf("told %q, want %q", told, wants)
			}
			for i, w := range wants {
				if !strings.HasPrefix(told[i], w) {
					t.Errorf("told %q, want %q", told[i], w)
				}
			}
		})
	}
	f("gone", true, "Recovered after 30 s: Redis is down")
	f("still there", false, "Resolved after 30 s, but NOT recovered: Redis is down")
}

// probeFunc is a probe made of a function.
type probeFunc func(ctx context.Context) (probes.Evidence, error)

func (f probeFunc) Check(ctx context.Context) (probes.Evidence, error) { return f(ctx) }

// TestIncidents lists what the agent could not tell, while it runs, and shows the
// report of one incident.
func TestIncidents(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	chat := slacktest.Start(t)
	config := write(t, "diagnose.yml", fmt.Sprintf(`
listen: 127.0.0.1:0
store: %q
webhook: {tokens: [%s]}
targets: [{name: registration, checker: {url: %q}}]
notify:
  - slack: {name: good, token: %s, channel: %s, api_url: %q}
  - slack: {name: shut, token: %s, channel: C0NOWHERE, api_url: %q}
`, filepath.Join(t.TempDir(), "diagnose.db"), canary, target.URL,
		slacktest.Token, slacktest.ChannelID, chat.APIURL(), slacktest.Token, chat.APIURL()))
	hook := serveHere(t, config)
	if got := postAlert(t, hook); got != http.StatusOK {
		t.Fatalf("post: got status %d, want 200", got)
	}
	list := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := diagnose(t, append([]string{"incidents", "--config", config}, args...)...)
		if code != 0 {
			t.Fatalf("incidents %q: got exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	eventually(t, "the shut channel is given up and the good one is done", 30*time.Second, func() bool {
		out := list("--undelivered")
		return strings.Contains(out, "not told to shut since") && strings.Contains(out, "invite the bot") && !strings.Contains(out, "to good")
	})
	id, _, _ := strings.Cut(list(), " ")
	eventually(t, "the report is written", 30*time.Second, func() bool { return !strings.Contains(list(id), "being worked on") })
	contains(t, "incidents ID", list(id), "RegistrationPathSick", "P0", "Cannot tell", "Cost of this run")
	contains(t, "incidents --output json", list("--output", "json"), `"id": "`+id+`"`, `"courier": "shut"`)
	contains(t, "incidents ID", list(id), "  1 of 1 alert firing  ")
	if got := list("--state", "resolved"); got != "none\n" {
		t.Errorf("resolved ones: got %q, want none", got)
	}
	if got := postResolved(t, hook); got != http.StatusOK {
		t.Fatalf("post the end: got status %d, want 200", got)
	}
	eventually(t, "the recovery check is written", 30*time.Second, func() bool { return strings.Contains(list(id), "Measured again") })
	contains(t, "incidents ID after the end", list(id), "  0 of 1 alert firing  ",
		"Resolved after 20 min, cannot tell whether it has recovered: RegistrationPathSick\n"+
			"Measured again after the alert resolved: no cause had been found, and the second look is inconclusive\n\nThe report, from before:\n\nCannot tell")
	says(t, exitUsage, []string{"incidents", "--config", config, "nope"}, `no incident "nope"`)
	says(t, exitUsage, []string{"incidents"}, "give the store either by --config FILE or by --store FILE")
	says(t, exitUsage, []string{"incidents", "--store", "/nowhere/x.db"}, "no such file")
	says(t, exitUsage, []string{"incidents", "--store", "x", "--state", "resolvd"}, `want one of open, resolved, stale; did you mean "resolved"?`)
	says(t, exitUsage, []string{"incidents", "--store", "x", "--limit", "0"}, "want at least 1")
	says(t, exitUsage, []string{"incidents", "--store", "x", "--output", "xml"}, "want text or json")
}

// serveHere runs an agent in this process until the test ends and returns the
// webhook's URL.
func serveHere(t *testing.T, path string) string {
	t.Helper()
	c, err := loadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	sinks, err := newSinks(c.Notify, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(t.Context(), c, sinks, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- a.run(ctx, func(at string) { address <- at }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	select {
	case at := <-address:
		return "http://" + at + webhookPath
	case err := <-ended:
		ended <- err
		t.Fatalf("agent: %v", err)
	}
	return ""
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
