package webhook

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestGroupMoves: the sender's configuration changes, and with it the key of
// the group, while its alert fires.
func TestGroupMoves(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	for _, step := range []struct {
		key   string
		alert alertSpec
		want  []Effect
	}{
		{"{}/{a}:x", firing("a", 30), []Effect{Opened}},
		{"{}/{b}:x", firing("a", 30), []Effect{Repeated}},
		{"{}/{c}:x", firing("b", 30), []Effect{Opened}}, // no alert in common
		{"{}/{b}:x", resolved("a", 30, 5), []Effect{Closed}},
	} {
		if _, got := post(t, h, message("x", map[string]any{"groupKey": step.key}, step.alert)); !slices.Equal(got, step.want) {
			t.Errorf("%s %v: got %v, want %v", step.key, step.alert, got, step.want)
		}
	}
}

// TestUnnamed: of a group without key and labels only its alerts tell which it is; those
// of other incidents of its receiver are no kin of it, open or over.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	unnamed := map[string]any{"groupKey": "", "groupLabels": nil}
	for i, step := range []struct {
		alerts []alertSpec
		want   Effect
		open   int
	}{
		{[]alertSpec{firing("a", 30)}, Opened, 1},
		{[]alertSpec{firing("b", 30)}, Opened, 2},
		{[]alertSpec{firing("a", 30)}, Repeated, 2},
		{[]alertSpec{firing("c", 30), firing("b", 30)}, Updated, 2},
		{[]alertSpec{firing("b", 30), firing("c", 30)}, Repeated, 2},
		{[]alertSpec{resolved("a", 30, 5)}, Closed, 1},
		{[]alertSpec{resolved("b", 30, 5), resolved("c", 30, 5)}, Closed, 0},
		{[]alertSpec{firing("d", 4)}, Opened, 1},
		{[]alertSpec{firing("a", 4)}, Reopened, 2},
	} {
		if _, got := post(t, h, message("x", unnamed, step.alerts...)); !slices.Equal(got, []Effect{step.want}) {
			t.Errorf("step %d: got %v, want %s", i, got, step.want)
		}
		if got := counted(t, in, "diagnose_incidents", "open"); got != float64(step.open) {
			t.Errorf("step %d: got %v open incidents, want %d", i, got, step.open)
		}
	}
	episodes := map[int]int{}
	for _, r := range incidents(t, in) {
		inc, _, err := load(t.Context(), in.store.read, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		episodes[inc.EpisodesToday]++
	}
	if episodes[1] != 2 || episodes[2] != 1 {
		t.Errorf("so many incidents have had so many episodes today: %v, want 2 with 1, and 1 with 2", episodes)
	}
	// What nothing tells from others is refused, for it would be the same as all such.
	for body, want := range map[string]int{
		`{"alerts":[{"status":"firing"}]}`: http.StatusBadRequest,
		`{"alerts":[{"status":"firing","labels":{"a":"1"}},{"status":"firing","annotations":{"summary":"s"}}]}`: http.StatusBadRequest,
		`{"alerts":[{"status":"firing","fingerprint":"f"}]}`:                                                    http.StatusOK,
		`{"groupKey":"k","alerts":[{"status":"firing"}]}`:                                                       http.StatusOK,
		`{"groupLabels":{"a":"1"},"alerts":[{"status":"firing"}]}`:                                              http.StatusOK,
	} {
		if code, a := serve(t, h, request([]byte(body))); code != want || code != http.StatusOK && (a.Reason != "not-alertmanager" || !strings.Contains(a.Error, "groupKey")) {
			t.Errorf("%s: got %d %q %q, want %d", body, code, a.Reason, a.Error, want)
		}
	}
}

// TestWrongClock: a sender whose clock is ahead is taken in, resolved, and heard
// again once its clock is right.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	for _, step := range []struct {
		alert alertSpec
		want  []Effect
	}{
		{firing("a", -600), []Effect{Opened}},
		{resolved("a", -600, -700), []Effect{Closed}},
		{firing("a", -5), []Effect{Reopened}},
		{alertSpec{"a", "resolved", at(-5), "soon"}, []Effect{Closed}},
		{firing("a", -6), []Effect{Reopened}},
	} {
		if _, got := post(t, h, message("x", nil, step.alert)); !slices.Equal(got, step.want) {
			t.Errorf("%v: got %v, want %v", step.alert, got, step.want)
		}
	}
	for _, r := range incidents(t, in) {
		if r.StartedAt.After(noon()) || r.ResolvedAt.After(noon()) {
			t.Errorf("got %+v, want no time in the future", r)
		}
	}
}

// TestTwoRoutes: one alert that reaches two receivers is one incident.
func TestTwoRoutes(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	wantPost(t, h, "v35-same-alert-two-routes-a.json", Opened)
	wantPost(t, h, "v35-same-alert-two-routes-b.json", Repeated)
}

// TestGroupLife follows a captured group through all its messages.
func TestGroupLife(t *testing.T) {
	t.Parallel()
	w := &fakeWorker{}
	in := openInbox(t, Options{Worker: w})
	h := newHandler(in)
	start(t, in)
	for _, step := range []struct {
		name   string
		want   Effect
		firing int
		alerts int
	}{
		{"v35-group-firing-5-first-flush.json", Opened, 4, 4},
		{"v35-group-firing-5.json", Updated, 5, 5},
		{"v35-group-firing-5.json", Repeated, 5, 5},
		{"v35-group-mixed-firing-and-resolved.json", Updated, 3, 5},
		{"v35-group-firing-5.json", Repeated, 3, 5}, // late: the two have ended
		{"v35-group-all-resolved.json", Closed, 0, 5},
	} {
		wantPost(t, h, step.name, step.want)
		settle(t, in)
		if r := onlyIncident(t, in); r.Firing != step.firing || r.Alerts != step.alerts {
			t.Errorf("after %s: got %d firing of %d, want %d of %d", step.name, r.Firing, r.Alerts, step.firing, step.alerts)
		}
	}
	if got := len(w.all()); got != 4 {
		t.Errorf("got %d runs, want 4", got)
	}
}

// Test54ChangedAnnotation: an annotation that changes is no news, and is kept as it is
// now.
func Test54ChangedAnnotation(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	wantPost(t, h, "v35-firing-single.json", Opened)
	changed := strings.ReplaceAll(string(readCase(t, "v35-firing-single.json")), "HighErrorRate summary", "another")
	if code, got := post(t, h, []byte(changed)); code != http.StatusOK || !slices.Equal(got, []Effect{Repeated}) {
		t.Errorf("got %d %v, want 200 repeated", code, got)
	}
	inc, _, err := load(t.Context(), in.store.read, onlyIncident(t, in).ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := inc.Alerts[0].Annotations["summary"]; got != "another" {
		t.Errorf("summary %q, want another", got)
	}
}

// TestStoreNeedsWorker: an inbox without a worker would promise and not keep.
func TestStoreNeedsWorker(t *testing.T) {
	t.Parallel()
	if in, err := Open(t.Context(), t.TempDir()+"/store.db", Options{}); err == nil || !strings.Contains(err.Error(), "no worker") {
		t.Errorf("got %v, %v, want an error", in, err)
	}
	in := openInbox(t, Options{})
	stop(t, in)
	if _, err := in.Store(t.Context(), Message{}); !errors.Is(err, ErrStopped) {
		t.Errorf("Store after Stop: got %v, want ErrStopped", err)
	}
}
