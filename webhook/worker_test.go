package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// TestNewsWhileRunning: whatever comes while Work runs leads to one more call.
func TestNewsWhileRunning(t *testing.T) {
	t.Parallel()
	var running atomic.Int32
	release := make(chan struct{})
	w := &fakeWorker{do: func(context.Context, playbooks.Incident, Memo) error {
		if running.Add(1) > 1 {
			t.Error("two calls for one incident overlap")
		}
		<-release
		running.Add(-1)
		return nil
	}}
	in := openInbox(t, Options{Worker: w})
	h := newHandler(in)
	start(t, in)
	post(t, h, message("x", nil, firing("a0", 5)))
	eventually(t, "the first call", func() bool { return len(w.all()) == 1 })
	alerts := []alertSpec{firing("a0", 5)}
	for i := 1; i <= 30; i++ {
		alerts = append(alerts, firing(fmt.Sprintf("a%d", i), 5))
		if _, got := post(t, h, message("x", nil, alerts...)); !slices.Equal(got, []Effect{Updated}) {
			t.Fatalf("alert %d: got %v, want updated", i, got)
		}
	}
	close(release)
	settle(t, in)
	calls := w.all()
	if len(calls) != 2 || len(calls[0].in.Alerts) != 1 || len(calls[1].in.Alerts) != 31 {
		t.Fatalf("got %d calls, want one with 1 alert and one with 31", len(calls))
	}
	if calls[0].attempt != 1 || calls[1].attempt != 1 {
		t.Errorf("attempts: got %d and %d, want 1 each: the news is new", calls[0].attempt, calls[1].attempt)
	}
}

// TestNoNewsIsLost lets news race with the end of runs.
func TestNoNewsIsLost(t *testing.T) {
	t.Parallel()
	w := &fakeWorker{}
	in := openInbox(t, Options{Worker: w})
	h := newHandler(in)
	start(t, in)
	alerts := []alertSpec{}
	for i := range 25 {
		alerts = append(alerts, firing(fmt.Sprintf("a%d", i), 5))
		post(t, h, message("x", nil, alerts...))
	}
	settle(t, in)
	calls := w.all()
	if got := len(calls[len(calls)-1].in.Alerts); got != 25 {
		t.Errorf("the last of %d calls saw %d alerts, want 25", len(calls), got)
	}
}

func TestParallelPosts(t *testing.T) {
	t.Parallel()
	w := &fakeWorker{}
	in := openInbox(t, Options{Worker: w})
	h := newHandler(in)
	start(t, in)
	body := readCase(t, "v35-firing-single.json")
	var opened atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			code, got := post(t, h, body)
			if code != http.StatusOK || len(got) != 1 {
				t.Errorf("got %d %v, want 200", code, got)
			} else if got[0] == Opened {
				opened.Add(1)
			}
		})
	}
	wg.Wait()
	settle(t, in)
	if opened.Load() != 1 || len(w.all()) != 1 {
		t.Errorf("got %d opened and %d runs, want 1 and 1", opened.Load(), len(w.all()))
	}
	onlyIncident(t, in)
}

// TestRetry: errors and panics are repeated, and told by Attempt and List.
func TestRetry(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	listed := make(chan struct{})
	w := &fakeWorker{do: func(context.Context, playbooks.Incident, Memo) error {
		switch n.Add(1) {
		case 1:
			return RetryAfter(errors.New("the channel is full"), time.Millisecond)
		case 2:
			panic("a bug")
		}
		<-listed
		return nil
	}}
	in := openInbox(t, Options{Worker: w})
	h := newHandler(in)
	start(t, in)
	wantPost(t, h, "v35-firing-single.json", Opened)
	eventually(t, "the panic is listed", func() bool {
		r := onlyIncident(t, in)
		return r.Error == "work panicked: a bug" && r.Attempts >= 2 && r.Pending
	})
	close(listed)
	settle(t, in)
	var attempts []int
	for _, c := range w.all() {
		attempts = append(attempts, c.attempt)
	}
	if !slices.Equal(attempts, []int{1, 2, 3}) {
		t.Errorf("attempts: got %v, want 1, 2, 3", attempts)
	}
	if r := onlyIncident(t, in); r.Error != "" || r.Attempts != 0 || r.Pending {
		t.Errorf("got %+v, want it settled without an error", r)
	}
	if got := counted(t, in, "diagnose_incident_run_seconds", "failed"); got != 2 {
		t.Errorf("failed runs counted: got %v, want 2", got)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second,
		10: 5 * time.Minute, 11: 5 * time.Minute, 1 << 40: 5 * time.Minute,
	} {
		for range 20 {
			if got := Backoff(attempts); got > want || got < want*9/10 {
				t.Errorf("Backoff(%d): got %s, want %s or up to a tenth less", attempts, got, want)
			}
		}
	}
	for given, want := range map[time.Duration]time.Duration{-time.Second: 0, time.Minute: time.Minute, 100 * time.Hour: time.Hour} {
		cause := errors.New("x")
		err := RetryAfter(cause, given)
		e, ok := errors.AsType[*retryAfterError](fmt.Errorf("outer: %w", err))
		if !ok || e.delay != want || !errors.Is(err, cause) {
			t.Errorf("RetryAfter(%s): got %+v, want %s and the cause kept", given, e, want)
		}
	}
}

// TestStopHandsBack: work that outlasts the grace is cancelled, and taken up by
// the next process with its memo and an attempt that tells. The receipt for what
// was done is kept although the work is cancelled before it is written down.
func TestStopHandsBack(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	first := &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, memo Memo) error {
		<-ctx.Done()
		if err := memo.Put(ctx, "receipt", []byte("posted")); err != nil {
			t.Errorf("Put: %v", err)
		}
		return errors.New("some error of the worker's own")
	}}
	in := openInboxAt(t, path, Options{Worker: first, Grace: 20 * time.Millisecond})
	start(t, in)
	wantPost(t, newHandler(in), "v35-firing-single.json", Opened)
	eventually(t, "the work begins", func() bool { return len(first.all()) == 1 })
	stop(t, in)
	if code, a := serve(t, newHandler(in), request(readCase(t, "v35-firing-single.json"))); code != http.StatusServiceUnavailable || a.Reason != "stopping" {
		t.Errorf("post after Stop: got %d %q, want 503 stopping", code, a.Reason)
	}

	var receipt atomic.Value
	second := &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, memo Memo) error {
		b, ok, err := memo.Get(ctx, "receipt")
		if err != nil || !ok {
			return fmt.Errorf("no receipt: %t, %w", ok, err)
		}
		receipt.Store(string(b))
		return nil
	}}
	again := openInboxAt(t, path, Options{Worker: second})
	start(t, again)
	settle(t, again)
	calls := second.all()
	if len(calls) != 1 || calls[0].attempt != 2 || calls[0].in.ID != first.all()[0].in.ID || receipt.Load() != "posted" {
		t.Errorf("got %+v with receipt %v, want one second attempt with the receipt", calls, receipt.Load())
	}
}

// TestStopWaits: work that ends within the grace is not cancelled.
func TestStopWaits(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	var cut atomic.Bool
	w := &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, _ Memo) error {
		close(begun)
		<-release
		cut.Store(ctx.Err() != nil)
		return nil
	}}
	path := newStore(t)
	in := openInboxAt(t, path, Options{Worker: w, Grace: time.Minute})
	start(t, in)
	wantPost(t, newHandler(in), "v35-firing-single.json", Opened)
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop(t, in) }()
	// Meanwhile nothing is taken in, and nobody is kept waiting for the answer.
	eventually(t, "the inbox refuses", func() bool {
		_, err := in.Store(t.Context(), Message{})
		return errors.Is(err, ErrStopped)
	})
	close(release)
	<-stopped
	rows, err := List(t.Context(), path, Filter{})
	if err != nil || len(rows) != 1 || rows[0].Pending || cut.Load() {
		t.Errorf("got %+v, %v, cut %t, want the work done", rows, err, cut.Load())
	}
}

func TestMemo(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	wantPost(t, h, "v35-firing-single.json", Opened)
	wantPost(t, h, "09a-ha-peer-a.json", Opened)
	rows := incidents(t, in)
	a, b := &memo{inbox: in, incident: rows[0].ID}, &memo{inbox: in, incident: rows[1].ID}
	put := func(m Memo, value []byte) {
		t.Helper()
		if err := m.Put(t.Context(), "k", value); err != nil {
			t.Errorf("Put: %v", err)
		}
	}
	get := func(m Memo) string {
		t.Helper()
		v, ok, err := m.Get(t.Context(), "k")
		return fmt.Sprintf("%q %t %v", v, ok, err)
	}
	if got, want := get(a), `"" false <nil>`; got != want {
		t.Errorf("before Put: got %s, want %s", got, want)
	}
	put(a, []byte("1"))
	put(a, []byte("2\x00\xff"))
	put(b, nil)
	if got, want := get(a), `"2\x00\xff" true <nil>`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := get(b), `"" true <nil>`; got != want {
		t.Errorf("the other incident: got %s, want %s", got, want)
	}
	gone := &memo{inbox: in, incident: "gone"}
	if err := gone.Put(t.Context(), "k", nil); err == nil {
		t.Error("Put for an incident that does not exist: got no error")
	}
}

// TestPrune deletes what is over and past its retention, and nothing else.
func TestPrune(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	in := openInbox(t, Options{Now: func() time.Time { return noon().Add(time.Duration(now.Load())) }})
	h := newHandler(in)
	post(t, h, message("open", nil, firing("a", 5)))
	post(t, h, message("over", nil, firing("b", 5)))
	post(t, h, message("over", nil, resolved("b", 5, 1)))
	now.Store(int64(31 * 24 * time.Hour))
	if err := in.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(incidents(t, in)); got != 2 {
		t.Errorf("got %d incidents, want 2: nobody has worked on them", got)
	}
	start(t, in)
	settle(t, in)
	if err := in.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := onlyIncident(t, in); r.Title != "open" || r.State != StateStale {
		t.Errorf("got %q, %s, want the open one, given up after so long a silence", r.Title, r.State)
	}
	var left int
	if err := in.store.read.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM ended) + (SELECT count(*) FROM alerts WHERE incident NOT IN (SELECT id FROM incidents))`).Scan(&left); err != nil || left != 0 {
		t.Errorf("got %d rows left over, %v", left, err)
	}
}

// TestGivenUp: what River has given up is tried again by the next process.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	in := openInboxAt(t, path, Options{})
	wantPost(t, newHandler(in), "v35-firing-single.json", Opened)
	if _, err := in.store.write.ExecContext(t.Context(), `UPDATE river_job SET state = 'discarded', finalized_at = CURRENT_TIMESTAMP WHERE kind = 'incident'`); err != nil {
		t.Fatal(err)
	}
	stop(t, in)
	w := &fakeWorker{}
	again := openInboxAt(t, path, Options{Worker: w})
	start(t, again)
	settle(t, again)
	if got := len(w.all()); got != 1 {
		t.Errorf("got %d runs, want 1", got)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	in := openInboxAt(t, path, Options{})
	h := newHandler(in)
	post(t, h, message("open", nil, firing("a", 5)))
	post(t, h, message("over", nil, firing("b", 5)))
	post(t, h, message("over", nil, resolved("b", 5, 1)))
	all := incidents(t, in)
	for _, tt := range []struct {
		f    Filter
		want int
	}{
		{Filter{}, 2},
		{Filter{State: StateOpen}, 1},
		{Filter{State: StateResolved}, 1},
		{Filter{Pending: true}, 2},
		{Filter{Limit: 1}, 1},
		{Filter{ID: all[0].ID}, 1},
		{Filter{ID: "none' OR 1=1"}, 0},
		{Filter{Since: noon()}, 2},
		{Filter{Since: noon().Add(time.Second)}, 0},
	} {
		// As another process would, while the inbox is open.
		rows, err := List(t.Context(), path, tt.f)
		if err != nil || len(rows) != tt.want {
			t.Errorf("List(%+v): got %d rows, %v, want %d", tt.f, len(rows), err, tt.want)
		}
	}
	if _, err := List(t.Context(), filepath.Join(t.TempDir(), "none.db"), Filter{}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("List without a store: got %v, want an error", err)
	}
}
