package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// tally counts what was done for each incident.
type tally struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *tally) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[id]++
}

// wantOnce checks that each of n incidents was counted once.
func (c *tally) wantOnce(t *testing.T, what string, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.count) != n {
		t.Errorf("%s: got %d incidents, want %d", what, len(c.count), n)
	}
	for id, times := range c.count {
		if times != 1 {
			t.Errorf("%s: got %s %d times, want once", what, id, times)
		}
	}
}

// testOneOfEach: whichever of two agents hears of a group, and at the same time,
// it is one incident with one run and one message.
func testOneOfEach(t *testing.T) {
	t.Parallel()
	const groups = 200
	var runs, messages tally
	store := newStore(t)
	agent := func() *Inbox {
		in := openInboxAt(t, store, Options{
			Workers: 16,
			Worker: &fakeWorker{do: func(_ context.Context, in playbooks.Incident, _ Memo) error {
				runs.add(in.ID)
				return nil
			}},
			Couriers: map[string]Courier{"chat": &fakeCourier{do: func(_ context.Context, in playbooks.Incident, _ Memo) error {
				messages.add(in.ID)
				return nil
			}}},
			Lease: time.Minute, // the machine may be busy
		})
		start(t, in)
		return in
	}
	agents := []*Inbox{agent(), agent()}
	handlers := []http.Handler{newHandler(agents[0]), newHandler(agents[1])}
	// Every group comes twice, as from a pair of Alertmanagers, by way of agents that chance picks.
	order := rand.Perm(2 * groups)
	work := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range work {
				group := fmt.Sprint("group ", i%groups)
				if code, _ := post(t, handlers[rand.IntN(2)], message(group, nil, firing(group, 5))); code != http.StatusOK {
					t.Errorf("%s: got %d, want 200", group, code)
				}
			}
		})
	}
	for _, i := range order {
		work <- i
	}
	close(work)
	wg.Wait()
	for _, in := range agents {
		settle(t, in)
		delivered(t, in)
	}
	rows, err := agents[0].List(t.Context(), Filter{Limit: 10 * groups})
	if err != nil || len(rows) != groups {
		t.Errorf("got %d incidents, %v, want %d", len(rows), err, groups)
	}
	runs.wantOnce(t, "runs", groups)
	messages.wantOnce(t, "messages", groups)
}

// testReplaced: an agent is killed in mid-run; the other one, which is running,
// goes on with it.
func testReplaced(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	cmd, lines, url := startChild(t, store, true)
	if code, err := fetch(t, http.MethodPost, url, string(readCase(t, "v35-firing-single.json"))); err != nil || code != http.StatusOK {
		t.Fatalf("post: got %d, %v, want 200", code, err)
	}
	if !lines.Scan() {
		t.Fatal("the child did not begin to work")
	}
	w := &fakeWorker{}
	in := openInboxAt(t, store, Options{Worker: w, Lease: 3 * time.Second})
	start(t, in)
	kill(t, cmd)
	settle(t, in)
	calls := w.all()
	if len(calls) != 1 || calls[0].attempt != 2 {
		t.Errorf("got %+v, want one call, the second attempt", calls)
	}
}

// testHanging: an agent that cannot report calls its work off; another one has
// taken it up, and what the first one says then counts for nothing.
func testHanging(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	cut := make(chan struct{})
	release := make(chan struct{})
	first := &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, _ Memo) error {
		<-ctx.Done()
		close(cut)
		<-release
		return nil
	}}
	hanging := openInboxAt(t, store, Options{Worker: first, Lease: 3 * time.Second})
	start(t, hanging)
	wantPost(t, newHandler(hanging), "v35-firing-single.json", Opened)
	eventually(t, "the work begins", func() bool { return len(first.all()) == 1 })
	hanging.lease.stop() // it reports no more
	<-cut
	second := &fakeWorker{}
	other := openInboxAt(t, store, Options{Worker: second, Lease: 3 * time.Second})
	start(t, other)
	settle(t, other)
	close(release)
	if calls := second.all(); len(calls) != 1 || calls[0].attempt != 2 {
		t.Errorf("got %+v, want one call by the other agent, the second attempt", calls)
	}
}

// testTakenAway: an agent whose job was taken from it leaves that as it is, whatever
// came of it here: another one is at it.
func testTakenAway(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	release := make(chan struct{})
	w := &fakeWorker{do: func(context.Context, playbooks.Incident, Memo) error {
		<-release
		return errors.New("too late")
	}}
	in := openInboxAt(t, store, Options{Worker: w, Lease: time.Minute})
	start(t, in)
	wantPost(t, newHandler(in), "v35-firing-single.json", Opened)
	eventually(t, "the work begins", func() bool { return len(w.all()) == 1 })
	if err := in.store.exec(t.Context(), `UPDATE river_job SET attempted_by = ARRAY['another'] WHERE kind = 'incident'`); err != nil {
		t.Fatal(err)
	}
	close(release)
	stop(t, in) // which waits until all is settled
	db, err := openReader(store)
	if err != nil {
		t.Fatal(err)
	}
	var state string
	err = db.QueryRowContext(t.Context(), `SELECT state FROM river_job WHERE kind = 'incident'`).Scan(&state)
	if err = errors.Join(err, db.Close()); err != nil || state != "running" {
		t.Errorf("got the job %s, %v, want it running, at the other agent", state, err)
	}
}

// testNoSecret: whatever goes wrong with the store, its password is not told.
func testNoSecret(t *testing.T) {
	t.Parallel()
	good := newStore(t)
	for name, url := range map[string]string{
		"nobody listens":  "postgres://postgres:" + canary + "@127.0.0.1:1/postgres",
		"no such host":    "postgres://postgres:" + canary + "@nowhere.invalid/postgres",
		"no such base":    strings.Replace(good, "/postgres?", "/none?", 1),
		"no such role":    strings.Replace(good, "//postgres:", "//nobody:", 1),
		"other scheme":    strings.Replace(good, "postgres://", "postgress://", 1),
		"key and value":   "host=127.0.0.1 password=" + canary,
		"not a URL":       "postgres://postgres:" + canary + "@[::1/%zz",
		"odd search_path": good + ",public",
		"bad option":      good + "&sslmode=" + canary,
	} {
		_, err := Open(t.Context(), url, Options{Worker: &fakeWorker{}})
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("Open, %s: got %v, want an error without the password", name, err)
		}
		if _, err := List(t.Context(), url, Filter{}); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("List, %s: got %v, want an error without the password", name, err)
		}
	}
}

// testHostileText: every captured and synthetic payload is answered as with
// SQLite; Postgres refuses some text that SQLite takes.
func testHostileText(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "alertmanager", "*.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("got %d cases, %v", len(files), err)
	}
	shared := openInbox(t, Options{})
	own := openInboxAt(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	nul := firing("a\x00\u202e\ufffd", 5)
	bodies := map[string][]byte{
		"NUL": message("nul\x00", map[string]any{"receiver": "r\x00", "groupLabels": map[string]string{"alertname": "n\x00\x00"}}, nul),
	}
	for _, f := range files {
		if bodies[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	names := make([]string, 0, len(bodies))
	for name := range bodies {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		wantCode, want := post(t, newHandler(own), bodies[name])
		code, got := post(t, newHandler(shared), bodies[name])
		if code != wantCode || !slices.Equal(got, want) {
			t.Errorf("%s: got %d %v, with SQLite %d %v", name, code, got, wantCode, want)
		}
	}
}
