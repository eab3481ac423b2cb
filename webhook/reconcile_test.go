package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clock is one that tests move.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time       { return noon().Add(time.Duration(c.ahead.Load())) }
func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }
func label(name string) map[string]string {
	return map[string]string{"alertname": "Down", "instance": name, "severity": "P0"}
}

// groups is what an Alertmanager answers about one group of the receiver team:
// "name state" for each alert, which began 5 minutes before noon.
func groups(alerts ...string) string {
	list := []map[string]any{}
	for _, a := range alerts {
		name, state, _ := strings.Cut(a, " ")
		list = append(list, map[string]any{
			"labels": label(name), "annotations": map[string]string{}, "startsAt": at(5), "endsAt": at(-5), "updatedAt": at(1),
			"fingerprint": fingerprint(label(name)), "status": map[string]any{"state": state, "silencedBy": []string{}, "inhibitedBy": []string{}},
			"receivers": []map[string]string{{"name": "team"}},
		})
	}
	b, err := json.Marshal([]map[string]any{{"labels": map[string]string{"alertname": "g"}, "receiver": map[string]string{"name": "team"}, "alerts": list}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fakeSender answers with what it is set to.
type fakeSender struct {
	body   atomic.Value
	status atomic.Int64
}

func (f *fakeSender) set(status int, body string) { f.status.Store(int64(status)); f.body.Store(body) }

func (f *fakeSender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+canary || r.URL.Path != "/am/api/v2/alerts/groups" || r.URL.Query().Get("receiver") != "^(?:team)$" {
		http.Error(w, "not what a sender is asked", http.StatusForbidden)
		return
	}
	if f.status.Load() == http.StatusFound {
		w.Header().Set("Location", "/am/api/v2/login")
	}
	w.WriteHeader(int(f.status.Load()))
	_, _ = w.Write([]byte(f.body.Load().(string)))
}

// fakeSenders starts n of them, which know of nothing.
func fakeSenders(t *testing.T, n int) ([]*fakeSender, []Sender) {
	t.Helper()
	fakes, senders := make([]*fakeSender, n), make([]Sender, n)
	for i := range n {
		fakes[i] = &fakeSender{}
		fakes[i].set(http.StatusOK, "[]")
		srv := httptest.NewServer(fakes[i])
		t.Cleanup(srv.Close)
		senders[i] = Sender{URL: srv.URL + "/am/", Token: canary, Receiver: "team"}
	}
	return fakes, senders
}

// TestUnreceived: what fires and was never received becomes an incident, which a
// later notification joins; what is silenced or has just begun does not.
func TestUnreceived(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{Registry: prometheus.NewRegistry()})
	fakes, senders := fakeSenders(t, 1)
	r := newReconciler(in, senders)
	fakes[0].set(http.StatusOK, groups("quiet suppressed"))
	r.round(t.Context())
	fakes[0].set(http.StatusOK, strings.ReplaceAll(groups("new active"), at(5), at(0)))
	r.round(t.Context())
	if got := incidents(t, in); len(got) != 0 {
		t.Fatalf("got %+v, want none: one is silenced, one has just begun", got)
	}
	fakes[0].set(http.StatusOK, groups("a active", "quiet suppressed"))
	r.round(t.Context())
	r.round(t.Context())
	first := onlyIncident(t, in)
	if first.Title != "g" || first.Severity != "P0" || first.Receiver != "team" || first.Firing != 1 {
		t.Errorf("got %+v, want g P0 of team with one alert", first)
	}
	h := newHandler(in)
	post(t, h, message("g", nil, firing("a", 5), firing("b", 4)))
	post(t, h, message("g", nil, firing("c", 4))) // no alert in common: it is found by the key
	fakes[0].set(http.StatusOK, groups("a active", "b active", "d active"))
	r.round(t.Context())
	post(t, h, message("g", nil, firing("e", 4))) // which a reconciliation leaves as it is
	if got := onlyIncident(t, in); got.ID != first.ID || got.Firing != 5 {
		t.Errorf("got %+v, want %s with 5 alerts", got, first.ID)
	}
	fakes[0].set(http.StatusOK, groups("f active")) // nor has this one an alert in common
	r.round(t.Context())
	if got := onlyIncident(t, in); got.ID != first.ID || got.Firing != 6 {
		t.Errorf("got %+v, want %s with 6 alerts", got, first.ID)
	}
	if got := counted(t, in, "diagnose_incidents_reconciled_total", "unreceived"); got != 3 {
		t.Errorf("got %v incidents counted, want 3: one opened, two updated", got)
	}
}

// TestEndedUnheard: an incident of which no Alertmanager knows for some minutes is
// stale. Not as long as any of them knows it, does not answer, or was restarted.
func TestEndedUnheard(t *testing.T) {
	t.Parallel()
	var c clock
	in := openInbox(t, Options{Now: c.now, Registry: prometheus.NewRegistry()})
	h := newHandler(in)
	post(t, h, message("g", nil, firing("a", 5)))
	post(t, h, message("other", map[string]any{"receiver": "not asked for"}, firing("a", 5)))
	fakes, senders := fakeSenders(t, 2)
	r := newReconciler(in, senders)
	state := func(after time.Duration, want State, why string) {
		t.Helper()
		c.pass(after)
		r.round(t.Context())
		for _, row := range incidents(t, in) {
			if row.Title == "other" && row.State != StateOpen || row.Title == "g" && row.State != want {
				t.Errorf("%s: got %s %s, want %s", why, row.Title, row.State, want)
			}
		}
	}
	fakes[0].set(http.StatusOK, groups("a suppressed"))
	state(0, StateOpen, "one knows it")
	state(2*goneFor, StateOpen, "one still knows it")
	fakes[0].set(http.StatusOK, "[]")
	state(0, StateOpen, "just gone")
	fakes[1].set(http.StatusServiceUnavailable, "[]")
	state(goneFor, StateOpen, "one does not answer")
	fakes[1].set(http.StatusOK, "[]")
	state(0, StateOpen, "both answer again: the time begins anew")
	state(goneFor-time.Second, StateOpen, "not long enough")
	post(t, h, message("g", nil, firing("a", 5)))
	state(time.Second, StateOpen, "heard of meanwhile")
	state(goneFor, StateStale, "gone for so long")
	state(goneFor, StateStale, "and that is all")
	if got := counted(t, in, "diagnose_incidents_reconciled_total", "ended"); got != 1 {
		t.Errorf("got %v incidents counted, want 1", got)
	}
	// The next word of it opens it again.
	post(t, h, message("g", nil, firing("a", 5)))
	state(0, StateOpen, "heard of again")
}

// TestHeardOf: an incident that a sender knows of goes on, however seldom it is repeated.
func TestHeardOf(t *testing.T) {
	t.Parallel()
	var c clock
	in := openInbox(t, Options{Now: c.now})
	post(t, newHandler(in), message("g", nil, firing("a", 5)))
	fakes, senders := fakeSenders(t, 1)
	fakes[0].set(http.StatusOK, groups("a active"))
	r := newReconciler(in, senders)
	for range 3 {
		c.pass(20 * time.Hour)
		r.round(t.Context())
		if err := in.prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := onlyIncident(t, in); got.State != StateOpen {
			t.Fatalf("got it %s, want it open: a sender knows of it", got.State)
		}
	}
	fakes[0].set(http.StatusServiceUnavailable, "")
	c.pass(25 * time.Hour)
	r.round(t.Context())
	if err := in.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := onlyIncident(t, in); got.State != StateStale {
		t.Errorf("got it %s, want stale: nobody has said anything for a day", got.State)
	}
}

// TestOddAnswers: an Alertmanager that answers nonsense changes nothing.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	good := groups("b active")
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"an error":            {http.StatusInternalServerError, good},
		"another success":     {http.StatusNoContent, ""},
		"a log-in page":       {http.StatusOK, "<html>log in</html>"},
		"a redirect":          {http.StatusFound, ""},
		"nothing":             {http.StatusOK, ""},
		"null":                {http.StatusOK, "null"},
		"an object":           {http.StatusOK, `{"status":"success","data":[]}`},
		"half":                {http.StatusOK, good[:len(good)/2]},
		"two":                 {http.StatusOK, good + good},
		"a null group":        {http.StatusOK, "[null]"},
		"no receiver":         {http.StatusOK, strings.Replace(good, `"receiver":{"name":"team"}`, `"receiver":null`, 1)},
		"no alerts":           {http.StatusOK, strings.Replace(good, `"alerts":`, `"alertz":`, 1)},
		"an unknown state":    {http.StatusOK, strings.Replace(good, "active", "dreaming", 1)},
		"no state":            {http.StatusOK, strings.Replace(good, `"state":`, `"was":`, 1)},
		"no start":            {http.StatusOK, strings.Replace(good, `"startsAt"`, `"startedAt"`, 1)},
		"a bad time":          {http.StatusOK, strings.Replace(good, at(5), "yesterday", 1)},
		"another fingerprint": {http.StatusOK, strings.Replace(good, fingerprint(label("b")), "0123456789abcdef", 1)},
		"no labels":           {http.StatusOK, strings.Replace(good, `"instance":"b"`, `"instance":7`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c clock
			in := openInbox(t, Options{Now: c.now, Registry: prometheus.NewRegistry()})
			post(t, newHandler(in), message("g", nil, firing("a", 5)))
			before := onlyIncident(t, in)
			fakes, senders := fakeSenders(t, 1)
			fakes[0].set(answer.status, answer.body)
			r := newReconciler(in, senders)
			for range 3 {
				r.round(t.Context())
				c.pass(2 * goneFor)
			}
			if got := onlyIncident(t, in); fmt.Sprint(got) != fmt.Sprint(before) {
				t.Errorf("got %+v, want it as it was: %+v", got, before)
			}
			if _, err := senders[0].ask(t.Context(), r.client); err == nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("ask: got %v, want an error without token and URL", err)
			}
		})
	}
}

// TestOneDown: what the other one says is still taken in.
func TestOneDown(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{Registry: prometheus.NewRegistry()})
	fakes, senders := fakeSenders(t, 2)
	senders[0].URL = "http://127.0.0.1:1/am"
	fakes[1].set(http.StatusOK, groups("a active"))
	newReconciler(in, senders).round(t.Context())
	if got := onlyIncident(t, in); got.Title != "g" {
		t.Errorf("got %+v, want g", got)
	}
}

// TestReconcileAlertmanager asks a real Alertmanager whose notifications do not
// get through at first: the incident is opened all the same, and the notification
// that comes at last, and the end, are of the same incident.
func TestReconcileAlertmanager(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{Now: time.Now, Registry: prometheus.NewRegistry()})
	h := Handler(in, HandlerOptions{Tokens: []string{"secret-token"}, StoreTimeout: time.Minute})
	var open atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !open.Load() {
			http.Error(w, "not for us", http.StatusNotFound) // which is not repeated before the next flush
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	api := startAlertmanager(t, srv.URL)
	begun := time.Now().Add(-time.Hour).UTC()
	alert := func(instance, ends string) string {
		return fmt.Sprintf(`{"labels":{"alertname":"Down","instance":%q},"annotations":{"summary":"x"},"startsAt":%q%s}`, instance, begun.Format(time.RFC3339Nano), ends)
	}
	r := newReconciler(in, []Sender{{URL: strings.TrimSuffix(api, "/api/v2/alerts"), Receiver: "on.call"}})
	r.round(t.Context())
	if got := counted(t, in, "diagnose_alertmanager_questions_total", "0"); got == 0 {
		t.Error("the empty answer was not understood")
	}
	send(t, api, alert("a", ""), alert("b", ""))
	eventually(t, "what was never received is taken in", func() bool {
		r.round(t.Context())
		rows := incidents(t, in)
		return len(rows) > 0 && rows[0].Firing == 2
	})
	first := onlyIncident(t, in)
	open.Store(true)
	eventually(t, "the notification comes", func() bool { return counted(t, in, "diagnose_webhook_accepted_total", "") > 0 })
	ends := fmt.Sprintf(`,"endsAt":%q`, time.Now().UTC().Format(time.RFC3339Nano))
	send(t, api, alert("a", ends), alert("b", ends))
	eventually(t, "the incident is resolved", func() bool { return onlyIncident(t, in).State == StateResolved })
	if got := onlyIncident(t, in); got.ID != first.ID || got.Title != "Down" || got.Alerts != 2 {
		t.Errorf("got %+v, want it to be %s", got, first.ID)
	}
}
