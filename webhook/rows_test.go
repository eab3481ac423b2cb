package webhook

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// TestR replays what has gone wrong in other receivers; each name begins with
// the id of its row in the collection of bug threads.
func TestR(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, in *Inbox, h http.Handler)
	}{
		{"R01 JSON that is no Alertmanager message is refused and counted", testR01},
		{"R02 an alert without alertname has a title", testR02},
		{"R03 missing labels stay missing", testR03},
		{"R04 no alerts is no error", testR04},
		{"R05 a firing alert has no end", testR05},
		{"R06 each alert's own status decides", testR06},
		{"R07 resolved with hidden alerts does not close", testR07},
		{"R08 two peers deliver one incident", testR08},
		{"R09 old firing after resolved does not reopen", testR09},
		{"R10 resolved that never comes leaves the incident open", testR10},
		{"R11 the same body again and again is one incident and one run", testR11},
		{"R12 an overloaded receiver says 503", testR12},
		{"R13 a storm is taken in, what is larger is 413", testR13},
		{"R14 resolved is not run as if it fired", testR14},
		{"R15 resolves without groupKey and fingerprint", testR15},
		{"R16 a bad time spoils its own field only", testR16},
		{"R18 any UTF-8 is a label", testR18},
		{"R19 both spellings of a receiver are one", testR19},
		{"R21 resolved twice is resolved once", testR21},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := openInbox(t, Options{})
			tt.run(t, in, newHandler(in))
		})
	}
}

func testR01(t *testing.T, in *Inbox, h http.Handler) {
	for _, body := range []string{`{"name":"sample"}`, `{}`, `null`, `"alerts"`, `7`, `[]`, `{"alerts":7}`, `{"alerts":"x"}`} {
		if code, a := serve(t, h, request([]byte(body))); code != http.StatusBadRequest || a.Reason != "not-alertmanager" {
			t.Errorf("post %s: got %d %q (%s), want 400 not-alertmanager", body, code, a.Reason, a.Error)
		}
	}
	if got := counted(t, in, "diagnose_webhook_refused_total", "not-alertmanager"); got != 8 {
		t.Errorf("refusals counted: got %v, want 8", got)
	}
}

func testR02(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "v35-no-alertname.json", Opened)
	if got := onlyIncident(t, in).Title; got != "unnamed alert" {
		t.Errorf("title: got %q, want unnamed alert", got)
	}
	m := Message{GroupLabels: map[string]string{"job": "api", "cluster": "eu"}}
	if got, want := m.title(), "cluster=eu job=api"; got != want {
		t.Errorf("title: got %q, want %q", got, want)
	}
}

func testR03(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "03-no-instance-no-job.json", Opened)
	inc, _, err := load(t.Context(), in.store.read, onlyIncident(t, in).ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := inc.Alerts[0].Labels["instance"]; ok || len(inc.Alerts[0].Labels) != 1 {
		t.Errorf("labels: got %v, want alertname only", inc.Alerts[0].Labels)
	}
}

func testR04(t *testing.T, in *Inbox, h http.Handler) {
	for _, body := range []string{`{"alerts":[],"version":"4"}`, `{"alerts":null,"version":"4"}`} {
		if code, a := serve(t, h, request([]byte(body))); code != http.StatusOK || a.Status != "nothing-to-do" {
			t.Errorf("post %s: got %d %q, want 200 nothing-to-do", body, code, a.Status)
		}
	}
	if got := len(incidents(t, in)); got != 0 {
		t.Errorf("got %d incidents, want none", got)
	}
}

func testR05(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "v35-firing-single.json", Opened)
	inc, _, err := load(t.Context(), in.store.read, onlyIncident(t, in).ID)
	if err != nil {
		t.Fatal(err)
	}
	if !inc.Alerts[0].EndsAt.IsZero() || !inc.ResolvedAt.IsZero() {
		t.Errorf("got an end: %v, %v", inc.Alerts[0].EndsAt, inc.ResolvedAt)
	}
	if want := time.Date(2026, 11, 30, 10, 34, 45, 98536000, time.UTC); !inc.StartedAt.Equal(want) {
		t.Errorf("StartedAt: got %s, want %s", inc.StartedAt, want)
	}
	// Some senders give a firing alert the time at which it will time out.
	m, err := Decode(message("x", nil, alertSpec{"a", "firing", at(5), at(-4)}))
	if err != nil || !m.Alerts[0].EndsAt.IsZero() {
		t.Errorf("got end %v, %v, want none", m.Alerts[0].EndsAt, err)
	}
}

func testR06(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "07-mixed-status-root-firing.json", Opened)
	if r := onlyIncident(t, in); r.Firing != 1 || r.Alerts != 2 {
		t.Errorf("got %d firing of %d, want 1 of 2", r.Firing, r.Alerts)
	}
	// The message's own status is wrong the other way round here.
	body := message("other", map[string]any{"status": "resolved"}, firing("a", 5), resolved("b", 5, 1))
	if _, got := post(t, h, body); !slices.Equal(got, []Effect{Opened}) {
		t.Errorf("got %v, want opened", got)
	}
}

func testR07(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "v35-truncated-max2-first.json", Opened)
	wantPost(t, h, "v35-truncated-TRAP-status-resolved-but-5-still-firing.json", Updated)
	if r := onlyIncident(t, in); r.State != StateOpen || r.Hidden != 5 {
		t.Errorf("got %s with %d hidden, want open with 5", r.State, r.Hidden)
	}
	// All that was ever seen has resolved, and still some are hidden.
	hidden := map[string]any{"truncatedAlerts": 3, "notification_reason": "some alerts resolved"}
	post(t, h, message("two", hidden, firing("a", 9), firing("b", 9)))
	post(t, h, message("two", hidden, resolved("a", 9, 2), resolved("b", 9, 2)))
	if r := incidents(t, in)[1]; r.State != StateOpen || r.Firing != 0 || r.Hidden != 3 {
		t.Errorf("got %+v, want it open with none firing and 3 hidden", r)
	}
	hidden["notification_reason"] = "all alerts resolved"
	if _, got := post(t, h, message("two", hidden, resolved("c", 9, 1), resolved("d", 9, 1))); !slices.Equal(got, []Effect{Closed}) {
		t.Errorf("got %v, want resolved: the sender says that all are", got)
	}
	if r := incidents(t, in)[1]; r.State != StateResolved || r.Hidden != 0 || !r.ResolvedAt.Equal(noon().Add(-time.Minute)) {
		t.Errorf("got %+v, want it resolved a minute before noon", r)
	}
	// And it does not when one of them fires.
	post(t, h, message("three", hidden, firing("a", 9)))
	if _, got := post(t, h, message("three", hidden, firing("a", 9), resolved("b", 9, 1))); slices.Contains(got, Closed) {
		t.Errorf("got %v, want it open: a fires", got)
	}
}

func testR08(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "09a-ha-peer-a.json", Opened)
	wantPost(t, h, "09b-ha-peer-b.json", Repeated)
	r := onlyIncident(t, in)
	if want := time.Date(2026, 11, 30, 10, 38, 35, 572933587, time.UTC); !r.StartedAt.Equal(want) {
		t.Errorf("StartedAt: got %s, want the earlier %s", r.StartedAt, want)
	}
	var jobs int
	if err := in.store.read.QueryRowContext(t.Context(), `SELECT count(*) FROM river_job WHERE kind = 'incident'`).Scan(&jobs); err != nil || jobs != 1 {
		t.Errorf("got %d jobs, %v, want 1", jobs, err)
	}
}

func testR09(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "10a-resolved-first.json")
	wantPost(t, h, "10b-stale-firing-after-resolved.json")
	if got := len(incidents(t, in)); got != 0 {
		t.Errorf("got %d incidents, want none", got)
	}
	// The same with a known incident, and then the next episode.
	post(t, h, message("x", nil, firing("a", 30)))
	post(t, h, message("x", nil, resolved("a", 30, 20)))
	if _, got := post(t, h, message("x", nil, firing("a", 30))); len(got) != 0 {
		t.Errorf("old firing: got %v, want nothing", got)
	}
	if _, got := post(t, h, message("x", nil, firing("a", 10))); !slices.Equal(got, []Effect{Reopened}) {
		t.Errorf("next episode: got %v, want reopened", got)
	}
	// The end of the first episode, from the slower peer, does not end the second.
	if _, got := post(t, h, message("x", map[string]any{"notification_reason": "all alerts resolved"}, resolved("a", 30, 20))); len(got) != 0 {
		t.Errorf("old end: got %v, want nothing", got)
	}
	if r := onlyIncident(t, in); r.State != StateOpen || r.Firing != 1 || r.Episode != 2 {
		t.Errorf("got %+v, want it open for the second time", r)
	}
	if got := counted(t, in, "diagnose_webhook_alerts_total", "stale"); got != 3 {
		t.Errorf("stale alerts counted: got %v, want 3", got)
	}
}

func testR10(t *testing.T, in *Inbox, h http.Handler) {
	post(t, h, message("x", nil, firing("a", 30), firing("b", 30)))
	// b was silenced: it is missing, which proves nothing.
	post(t, h, message("x", nil, resolved("a", 30, 5)))
	if r := onlyIncident(t, in); r.State != StateOpen || r.Firing != 1 {
		t.Errorf("got %+v, want it open with b firing", r)
	}
	// But the sender may vouch for it.
	post(t, h, message("x", map[string]any{"notification_reason": "all alerts resolved"}, resolved("a", 30, 5)))
	if r := onlyIncident(t, in); r.State != StateResolved || r.Firing != 0 {
		t.Errorf("got %+v, want it resolved", r)
	}
}

func testR11(t *testing.T, in *Inbox, h http.Handler) {
	release := make(chan struct{})
	w := &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, _ Memo) error {
		select {
		case <-release:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	in.opts.Worker = w
	start(t, in)
	body := readCase(t, "v35-retry-attempt-1.json")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 20 {
		// Each sender has given up before the answer; the work does not mind.
		if code, _ := serve(t, h, request(body).WithContext(gone)); code != http.StatusOK {
			t.Errorf("post %d: got %d, want 200 without waiting for the work", i, code)
		}
	}
	eventually(t, "the work begins", func() bool { return len(w.all()) == 1 })
	wantPost(t, h, "v35-retry-attempt-4-identical-body.json", Repeated)
	close(release)
	settle(t, in)
	if got := len(w.all()); got != 1 {
		t.Errorf("got %d runs, want 1", got)
	}
	onlyIncident(t, in)
}

func testR12(t *testing.T, in *Inbox, _ http.Handler) {
	body := readCase(t, "v35-firing-single.json")
	// No room in memory.
	h := Handler(in, HandlerOptions{StoreTimeout: time.Millisecond, ReadTimeout: time.Millisecond})
	hh := h.(*handler)
	if err := hh.room.Acquire(t.Context(), 2*hh.opts.MaxBody); err != nil {
		t.Fatal(err)
	}
	if code, a := serve(t, h, request(body)); code != http.StatusServiceUnavailable || a.Reason != "busy" {
		t.Errorf("no room: got %d %q, want 503 busy", code, a.Reason)
	}
	// The store's writer is taken.
	h = Handler(in, HandlerOptions{StoreTimeout: 20 * time.Millisecond, ReadTimeout: time.Minute})
	tx, err := in.store.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if code, a := serve(t, h, request(body)); code != http.StatusServiceUnavailable || a.Reason != "store" {
		t.Errorf("store taken: got %d %q, want 503 store", code, a.Reason)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	// The repetition is taken in.
	wantPost(t, newHandler(in), "v35-firing-single.json", Opened)
}

func testR13(t *testing.T, in *Inbox, h http.Handler) {
	pad := func(n int) []byte {
		return message("big", map[string]any{"pad": strings.Repeat("x", n)}, firing("a", 5))
	}
	if code, got := post(t, h, pad(10<<20)); code != http.StatusOK || !slices.Equal(got, []Effect{Opened}) {
		t.Errorf("10 MiB: got %d %v, want 200 opened", code, got)
	}
	if code, a := serve(t, h, request(pad(17<<20))); code != http.StatusRequestEntityTooLarge || a.Reason != "too-large" {
		t.Errorf("17 MiB: got %d %q, want 413", code, a.Reason)
	}
	// Chunked: the size is known only when it is too late.
	r := request(pad(17 << 20))
	r.ContentLength = -1
	if code, a := serve(t, h, r); code != http.StatusRequestEntityTooLarge || a.Reason != "too-large" {
		t.Errorf("17 MiB in chunks: got %d %q, want 413", code, a.Reason)
	}
	if got := counted(t, in, "diagnose_webhook_refused_total", "too-large"); got != 2 {
		t.Errorf("refusals counted: got %v, want 2", got)
	}
}

func testR14(t *testing.T, in *Inbox, h http.Handler) {
	w := &fakeWorker{}
	in.opts.Worker = w
	start(t, in)
	wantPost(t, h, "11-resolved-never-seen-firing.json")
	wantPost(t, h, "v35-resolved-single.json")
	wantPost(t, h, "v35-real-prometheus-firing-no-annotations.json", Opened)
	settle(t, in)
	wantPost(t, h, "v35-real-prometheus-resolved.json", Closed)
	settle(t, in)
	calls := w.all()
	if len(calls) != 2 || calls[0].in.ID != calls[1].in.ID {
		t.Fatalf("got %+v, want two calls for one incident", calls)
	}
	if !calls[0].in.ResolvedAt.IsZero() || calls[1].in.ResolvedAt.IsZero() || calls[1].in.Alerts[0].Firing {
		t.Errorf("got %+v, want the first open and the second resolved", calls)
	}
}

func testR21(t *testing.T, in *Inbox, h http.Handler) {
	w := &fakeWorker{}
	in.opts.Worker = w
	start(t, in)
	post(t, h, message("x", nil, firing("a", 30), firing("b", 30)))
	settle(t, in)
	for i, want := range [][]Effect{{Updated}, {Repeated}, {Repeated}} {
		if _, got := post(t, h, message("x", nil, resolved("a", 30, 5), firing("b", 30))); !slices.Equal(got, want) {
			t.Errorf("a resolved, %d: got %v, want %v", i, got, want)
		}
	}
	settle(t, in)
	for i, want := range [][]Effect{{Closed}, nil, nil} {
		if _, got := post(t, h, message("x", nil, resolved("a", 30, 5), resolved("b", 30, 4))); !slices.Equal(got, want) {
			t.Errorf("all resolved, %d: got %v, want %v", i, got, want)
		}
	}
	settle(t, in)
	if got := len(w.all()); got != 3 {
		t.Errorf("got %d runs, want 3: opened, updated, resolved", got)
	}
}
