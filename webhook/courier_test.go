package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// fakeCourier records its calls and then does what do says.
type fakeCourier struct {
	do    func(ctx context.Context, in playbooks.Incident, memo Memo) error
	mu    sync.Mutex
	calls []call
}

func (c *fakeCourier) Carry(ctx context.Context, in playbooks.Incident, memo Memo) error {
	c.mu.Lock()
	c.calls = append(c.calls, call{in, memo.Attempt()})
	c.mu.Unlock()
	if c.do == nil {
		return nil
	}
	return c.do(ctx, in, memo)
}

func (c *fakeCourier) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// delivered waits until no courier has anything left to deliver.
func delivered(t testing.TB, in *Inbox) {
	t.Helper()
	eventually(t, "all is delivered", func() bool {
		rows, err := in.List(t.Context(), Filter{Undelivered: true})
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		return len(rows) == 0
	})
}

// TestDeadCourierDelaysNobody: one courier hangs, and all its workers with it;
// the work and the other courier go on.
func TestDeadCourierDelaysNobody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	dead := &fakeCourier{do: func(ctx context.Context, _ playbooks.Incident, _ Memo) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	well, work := &fakeCourier{}, &fakeWorker{}
	in := openInbox(t, Options{Worker: work, Couriers: map[string]Courier{"dead": dead, "well": well}})
	start(t, in)
	h := newHandler(in)
	const groups = 2 * courierWorkers
	for i := range groups {
		if code, _ := post(t, h, message(strings.Repeat("x", i+1), nil, firing(strings.Repeat("a", i+1), 5))); code != 200 {
			t.Fatalf("post: got %d", code)
		}
	}
	eventually(t, "the dead courier has all its workers in use, everybody else is done", func() bool {
		rows, err := in.List(t.Context(), Filter{Undelivered: true})
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		left := 0
		for _, r := range rows {
			if len(r.Undelivered) == 1 && r.Undelivered[0].Courier == "dead" {
				left++
			}
		}
		return left == groups && dead.count() == courierWorkers && well.count() >= groups && len(work.all()) == groups
	})
	close(release)
	delivered(t, in)
}

// TestAudience: news is carried by those that it is for, and by those that were called
// for the incident before; nobody else has anything to do with it.
func TestAudience(t *testing.T) {
	t.Parallel()
	growth, core, follower := &fakeCourier{}, &fakeCourier{}, &fakeCourier{}
	in := openInbox(t, Options{
		Couriers: map[string]Courier{"growth": growth, "core": core}, Followers: map[string]Courier{"growth-details": follower},
		Audience: func(alerts []playbooks.Alert) []string {
			if slices.ContainsFunc(alerts, func(a playbooks.Alert) bool { return a.Labels["instance"] == "a" }) {
				return []string{"growth"}
			}
			return []string{"core"}
		},
	})
	start(t, in)
	h := newHandler(in)
	step := func(growths, cores int, alerts ...alertSpec) {
		t.Helper()
		post(t, h, message("g", nil, alerts...))
		delivered(t, in)
		if growth.count() != growths || core.count() != cores {
			t.Errorf("growth was called %d times, core %d, want %d and %d", growth.count(), core.count(), growths, cores)
		}
	}
	step(1, 0, firing("a", 5))
	if _, err := in.store.write.ExecContext(t.Context(), `INSERT INTO deliveries (incident, courier, wanted, done, since) SELECT id, 'growth-details', 1, 1, '' FROM incidents`); err != nil {
		t.Fatal(err)
	}
	step(2, 0, firing("a", 5), firing("b", 4))
	step(3, 1, firing("b", 4), firing("c", 3)) // for core, but growth has the incident, too
	step(4, 2, resolved("a", 5, 1), resolved("b", 4, 1), resolved("c", 3, 1))
	if follower.count() != 0 {
		t.Errorf("the follower was called %d times, want never: no news is for it", follower.count())
	}
}

// TestRenamed: what a courier did not get told before it was taken out of the
// configuration is told by the one in its place.
func TestRenamed(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	in := openInboxAt(t, path, Options{Couriers: map[string]Courier{"old": &fakeCourier{}}})
	post(t, newHandler(in), message("g", nil, firing("a", 5)))
	stop(t, in)
	c := &fakeCourier{}
	next := openInboxAt(t, path, Options{
		Couriers: map[string]Courier{"new": c, "other": &fakeCourier{}},
		Audience: func([]playbooks.Alert) []string { return []string{"new"} },
	})
	start(t, next)
	eventually(t, "the new courier is called", func() bool { return c.count() == 1 })
}

// TestUrgentToldFirst: what is urgent is told before what has waited for longer.
func TestUrgentToldFirst(t *testing.T) {
	t.Parallel()
	c := &fakeCourier{}
	in := openInbox(t, Options{Couriers: map[string]Courier{"chat": c}})
	h := newHandler(in)
	const warnings = 4 * courierWorkers
	for i := range warnings {
		post(t, h, bytes.ReplaceAll(message(strings.Repeat("w", i+1), nil, firing(strings.Repeat("w", i+1), 5)), []byte("P0"), []byte("warning")))
	}
	post(t, h, message("urgent", nil, firing("u", 5)))
	// One that was a warning when it came.
	post(t, h, message("w", nil, firing("w", 5), firing("raised", 5)))
	start(t, in)
	delivered(t, in)
	c.mu.Lock()
	defer c.mu.Unlock()
	urgent := 0
	for _, one := range c.calls[:courierWorkers] {
		if one.in.Severity == "P0" {
			urgent++
		}
	}
	if urgent != 2 || len(c.calls) != warnings+1 {
		t.Errorf("%d of the first %d calls are urgent, want 2; %d calls, want %d", urgent, courierWorkers, len(c.calls), warnings+1)
	}
}

// TestNewsDuringDelivery: news that comes while a courier is under way leads to
// one more call, which sees it.
func TestNewsDuringDelivery(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 100), make(chan struct{})
	c := &fakeCourier{do: func(context.Context, playbooks.Incident, Memo) error {
		begun <- struct{}{}
		<-release
		return nil
	}}
	in := openInbox(t, Options{Couriers: map[string]Courier{"chat": c}})
	start(t, in)
	h := newHandler(in)
	post(t, h, message("g", nil, firing("a", 5)))
	<-begun
	post(t, h, message("g", nil, firing("a", 5), firing("b", 4)))
	post(t, h, message("g", nil, firing("a", 5), firing("b", 4), firing("c", 3)))
	close(release)
	delivered(t, in)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) != 2 || len(c.calls[1].in.Alerts) != 3 {
		t.Errorf("got %d calls, want 2, the last with all 3 alerts", len(c.calls))
	}
}

// TestUndeliverable: what a courier gives up is kept and listed, survives a
// restart, and is tried again by the next process and after news.
func TestUndeliverable(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	refuse := &fakeCourier{do: func(context.Context, playbooks.Incident, Memo) error {
		return Undeliverable(errors.New("no such channel"))
	}}
	in := openInboxAt(t, path, Options{Couriers: map[string]Courier{"chat": refuse}})
	start(t, in)
	h := newHandler(in)
	post(t, h, message("g", nil, firing("a", 5)))
	givenUp := func(calls int) {
		t.Helper()
		eventually(t, "the courier has given up", func() bool {
			rows, err := List(t.Context(), path, Filter{Undelivered: true})
			if err != nil {
				t.Fatalf("List: %v", err)
			}
			return refuse.count() == calls && len(rows) == 1 && rows[0].Undelivered[0].Error == "no such channel"
		})
	}
	givenUp(1)
	post(t, h, message("g", nil, firing("a", 5), firing("b", 4)))
	givenUp(2)
	stop(t, in)

	well := &fakeCourier{}
	next := openInboxAt(t, path, Options{Couriers: map[string]Courier{"chat": well}})
	start(t, next)
	delivered(t, next)
	if got := well.count(); got != 1 {
		t.Errorf("the next process carried it %d times, want once", got)
	}
}

// TestManyGivenUp: after a storm that nobody could be told of, the next agent
// starts, and tells all of it.
func TestManyGivenUp(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	refuse := &fakeCourier{do: func(context.Context, playbooks.Incident, Memo) error { return Undeliverable(errors.New("shut")) }}
	in := openInboxAt(t, path, Options{Couriers: map[string]Courier{"chat": refuse}})
	start(t, in)
	h := newHandler(in)
	const groups = 2*reclaimedAtOnce + 10
	for i := range groups {
		post(t, h, message(fmt.Sprint("g", i), nil, firing(fmt.Sprint("a", i), 5)))
	}
	eventually(t, "all of it is given up", func() bool { return counted(t, in, "diagnose_deliveries_total", "undeliverable") >= groups })
	settle(t, in)
	stop(t, in)
	c := &fakeCourier{}
	next := openInboxAt(t, path, Options{Couriers: map[string]Courier{"chat": c}})
	start(t, next)
	delivered(t, next)
	if got := c.count(); got != groups {
		t.Errorf("got %d calls, want %d", got, groups)
	}
}

// TestFollowers are not called before they are named.
func TestFollowers(t *testing.T) {
	t.Parallel()
	follower := &fakeCourier{}
	c := &fakeCourier{do: func(ctx context.Context, _ playbooks.Incident, memo Memo) error {
		if follower.count() > 0 {
			t.Error("the follower was called although nobody has named it")
		}
		return memo.Put(ctx, "said", nil, "chat-details")
	}}
	in := openInbox(t, Options{Couriers: map[string]Courier{"chat": c}, Followers: map[string]Courier{"chat-details": follower}})
	start(t, in)
	post(t, newHandler(in), message("g", nil, firing("a", 5)))
	delivered(t, in)
	if got := follower.count(); got != 1 {
		t.Errorf("got %d calls of the follower, want 1", got)
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{
		Worker: &fakeWorker{}, Couriers: map[string]Courier{"chat": c}, Followers: map[string]Courier{"chat": follower},
	}); err == nil {
		t.Error("an inbox opens with two couriers of one name")
	}
}

// TestDeliveryIsRepeated: a courier that fails is called again when it asked to
// be, with an attempt that tells; one that panics too.
func TestDeliveryIsRepeated(t *testing.T) {
	t.Parallel()
	c := &fakeCourier{do: func(_ context.Context, _ playbooks.Incident, memo Memo) error {
		switch memo.Attempt() {
		case 1:
			return RetryAfter(errors.New("busy"), time.Millisecond)
		case 2:
			panic("oh")
		}
		return nil
	}}
	in := openInbox(t, Options{Couriers: map[string]Courier{"chat": c}})
	start(t, in)
	post(t, newHandler(in), message("g", nil, firing("a", 5)))
	delivered(t, in)
	if got := c.count(); got != 3 {
		t.Errorf("got %d calls, want 3", got)
	}
	eventually(t, "one delivery is counted", func() bool { return counted(t, in, "diagnose_delivery_lag_seconds", "chat") == 1 })
}

// TestSend: the work has its couriers go once more.
func TestSend(t *testing.T) {
	t.Parallel()
	var sent sync.WaitGroup
	sent.Add(1)
	c := &fakeCourier{do: func(_ context.Context, _ playbooks.Incident, memo Memo) error {
		sent.Wait()
		_, ok, err := memo.Get(t.Context(), "report")
		if !ok {
			t.Errorf("the courier does not see what the work has put: %v", err)
		}
		return err
	}}
	work := &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, memo Memo) error {
		defer sent.Done()
		return memo.Put(ctx, "report", []byte("x"), "chat")
	}}
	in := openInbox(t, Options{Worker: work, Couriers: map[string]Courier{"chat": c}})
	start(t, in)
	post(t, newHandler(in), message("g", nil, firing("a", 5)))
	delivered(t, in)
	if got := c.count(); got < 1 || got > 2 {
		t.Errorf("got %d calls, want 1 or 2", got)
	}
}

// TestWake: work and couriers begin at once, not when the queues are looked at.
func TestWake(t *testing.T) {
	t.Parallel()
	c, work := &fakeCourier{}, &fakeWorker{}
	in := openInbox(t, Options{Worker: work, Couriers: map[string]Courier{"chat": c}, pollInterval: time.Hour})
	start(t, in)
	h := newHandler(in)
	for _, group := range []string{"g", "h", "i"} {
		post(t, h, message(group, nil, firing(group, 5)))
		settle(t, in)
		delivered(t, in)
	}
	if c.count() != 3 || len(work.all()) != 3 {
		t.Errorf("got %d deliveries and %d runs, want 3 each", c.count(), len(work.all()))
	}
}

func TestCourierNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Slack", "a b", "-a", "a--b", "ä", strings.Repeat("a", 49)} {
		if ValidCourierName(name) == nil {
			t.Errorf("%q is taken", name)
		}
		if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{Worker: &fakeWorker{}, Couriers: map[string]Courier{name: &fakeCourier{}}}); err == nil {
			t.Errorf("an inbox opens with a courier %q", name)
		}
	}
	for _, name := range []string{"slack", "slack-webhook", "team_2"} {
		if err := ValidCourierName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestSchemaUpgrade: a store of the first version is brought up to this one.
func TestSchemaUpgrade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	in := openInboxAt(t, path, Options{})
	post(t, newHandler(in), message("g", nil, firing("a", 5)))
	for _, q := range []string{
		`DROP TABLE barks`, `DROP TABLE deliveries`, `DROP TABLE episodes`, `DROP INDEX incidents_over`, `ALTER TABLE incidents DROP COLUMN episode`,
		`ALTER TABLE incidents DROP COLUMN heard_at`, `ALTER TABLE incidents DROP COLUMN stale`,
		`ALTER TABLE incidents DROP COLUMN pending_since`, `PRAGMA user_version = 1`,
	} {
		if _, err := in.store.write.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, in)
	c := &fakeCourier{}
	next := openInboxAt(t, path, Options{Couriers: map[string]Courier{"chat": c}})
	if since := onlyIncident(t, next).PendingSince; !since.Equal(noon()) {
		t.Errorf("pending since %s, want noon", since)
	}
	start(t, next)
	post(t, newHandler(next), message("g", nil, firing("a", 5), firing("b", 4)))
	delivered(t, next)
	if c.count() == 0 {
		t.Error("the courier was not called")
	}
	if inc, _, err := load(t.Context(), next.store.read, onlyIncident(t, next).ID); err != nil || inc.EpisodesToday != 1 || !inc.HeardAt.Equal(noon()) {
		t.Errorf("got %+v, %v, want it heard of once, at noon", inc, err)
	}
}
