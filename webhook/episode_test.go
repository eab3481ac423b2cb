package webhook

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestEpisodes: trouble that comes back soon is the same incident again, and it is
// told how often it came; later it is another incident.
func TestEpisodes(t *testing.T) {
	t.Parallel()
	var past atomic.Int64 // minutes after noon
	in := openInbox(t, Options{Now: func() time.Time { return noon().Add(time.Duration(past.Load()) * time.Minute) }})
	h := newHandler(in)
	ids := map[string]bool{}
	for _, step := range []struct {
		after    int64
		alert    alertSpec
		want     Effect
		episode  int
		times    int
		distinct int
	}{
		{0, firing("a", 5), Opened, 1, 1, 1},
		{10, resolved("a", 5, -9), Closed, 1, 1, 1},
		{69, firing("a", -68), Reopened, 2, 2, 1},
		{70, firing("a", -68), Repeated, 2, 2, 1},
		{80, resolved("a", -68, -75), Closed, 2, 2, 1},
		{141, firing("a", -140), Opened, 1, 3, 2},
		{150, resolved("a", -140, -149), Closed, 1, 3, 2},
		// Another alert of the same group is the same trouble.
		{160, firing("b", -160), Reopened, 2, 4, 2},
		{161, resolved("b", -160, -161), Closed, 2, 4, 2},
		{1599, firing("a", -1599), Opened, 1, 2, 3}, // those of the day before have gone by
	} {
		past.Store(step.after)
		code, a := serve(t, h, request(message("x", nil, step.alert)))
		if code != 200 || len(a.Incidents) != 1 || a.Incidents[0].Effect != step.want {
			t.Fatalf("%d minutes after noon: got %d %+v, want %s", step.after, code, a, step.want)
		}
		ids[a.Incidents[0].Incident] = true
		inc, _, err := load(t.Context(), in.store.read, a.Incidents[0].Incident)
		if err != nil {
			t.Fatal(err)
		}
		if inc.Episode != step.episode || inc.EpisodesToday != step.times || len(ids) != step.distinct {
			t.Errorf("%d minutes after noon: got episode %d, time %d, %d incidents, want %d, %d, %d",
				step.after, inc.Episode, inc.EpisodesToday, len(ids), step.episode, step.times, step.distinct)
		}
		if step.want == Opened || step.want == Reopened {
			if !inc.ResolvedAt.IsZero() || !inc.HeardAt.Equal(in.opts.Now()) || inc.StartedAt.After(inc.HeardAt) {
				t.Errorf("%d minutes after noon: got %+v, want a new beginning", step.after, inc)
			}
		}
	}
}

// TestStale: an incident that nobody speaks of any more is given up, and comes
// back with the next word of it, even of the same episode of the alert.
func TestStale(t *testing.T) {
	t.Parallel()
	var past atomic.Int64
	w := &fakeWorker{}
	in := openInbox(t, Options{Worker: w, Now: func() time.Time { return noon().Add(time.Duration(past.Load())) }})
	h := newHandler(in)
	start(t, in)
	post(t, h, message("x", nil, firing("a", 5)))
	settle(t, in)
	past.Store(int64(23 * time.Hour))
	post(t, h, message("x", nil, firing("a", 5))) // still there
	past.Store(int64(46 * time.Hour))
	if err := in.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := onlyIncident(t, in); r.State != StateOpen {
		t.Errorf("23 hours after the last word: got %s, want open", r.State)
	}
	past.Store(int64(48 * time.Hour))
	if err := in.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, in)
	if r := onlyIncident(t, in); r.State != StateStale || r.Firing != 0 {
		t.Errorf("25 hours after the last word: got %+v, want stale", r)
	}
	calls := w.all()
	if last := calls[len(calls)-1].in; len(calls) != 2 || !last.Stale || !last.ResolvedAt.Equal(in.opts.Now()) {
		t.Errorf("got %d calls, the last %+v, want one to say that it is given up", len(calls), last)
	}
	for state, want := range map[State]int{StateStale: 1, StateResolved: 0, StateOpen: 0} {
		if rows, err := in.List(t.Context(), Filter{State: state}); err != nil || len(rows) != want {
			t.Errorf("list of %s: got %d, %v, want %d", state, len(rows), err, want)
		}
	}
	if _, got := post(t, h, message("x", nil, firing("a", 5))); !slices.Equal(got, []Effect{Reopened}) {
		t.Errorf("the next word: got %v, want reopened", got)
	}
	if r := onlyIncident(t, in); r.State != StateOpen {
		t.Errorf("got %s, want open", r.State)
	}
}

// severe is an alert of its own group and severity.
func severe(group, severity string) []byte {
	return fmt.Appendf(nil, `{"groupKey":%q,"alerts":[{"status":"firing","labels":{"alertname":%q,"severity":%q},"startsAt":%q}]}`,
		group, group, severity, at(5))
}

// TestEndedByMistake: an Alertmanager that hears nothing of Prometheus takes an alert for
// ended, and sends it with its old start when it hears again: that is the same trouble
// once more, and no old news, as it is shortly after the end.
func TestEndedByMistake(t *testing.T) {
	t.Parallel()
	var past atomic.Int64 // minutes after noon
	in := openInbox(t, Options{Now: func() time.Time { return noon().Add(time.Duration(past.Load()) * time.Minute) }})
	h := newHandler(in)
	for _, step := range []struct {
		after int64
		alert alertSpec
		want  []Effect
	}{
		{0, firing("a", 5), []Effect{Opened}},
		{20, resolved("a", 5, -19), []Effect{Closed}},
		{21, firing("a", 5), nil}, // from a peer that is out of step
		{29, firing("a", 5), nil},
		{31, firing("a", 5), []Effect{Reopened}},
		{32, firing("a", 5), []Effect{Repeated}},
		{40, resolved("a", 5, -39), []Effect{Closed}},
		{41, firing("a", 5), nil},
	} {
		past.Store(step.after)
		if _, got := post(t, h, message("x", nil, step.alert)); !slices.Equal(got, step.want) {
			t.Errorf("%d minutes after noon: got %v, want %v", step.after, got, step.want)
		}
	}
}

// TestFullIncident: what fires after the end of an incident that has all the alerts it can
// track opens another one.
func TestFullIncident(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	post(t, h, message("x", nil, firing("a", 5)))
	post(t, h, message("x", nil, resolved("a", 5, 1)))
	if err := in.store.exec(t.Context(), `INSERT INTO alerts (incident, fingerprint, firing, starts_at, ends_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT id, 'f' || i, FALSE, '', '' FROM n, incidents`, maxTracked); err != nil {
		t.Fatal(err)
	}
	if _, got := post(t, h, message("x", nil, resolved("a", 5, 1))); len(got) != 0 {
		t.Errorf("the end once more: got %v, want nothing", got)
	}
	if _, got := post(t, h, message("x", nil, firing("b", 0))); !slices.Equal(got, []Effect{Opened}) {
		t.Errorf("got %v, want it opened", got)
	}
}
