package errlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

func defaults(any) error { return nil }

var now = time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)

type entry struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"`
	Layer   string    `json:"layer,omitempty"`
	Target  string    `json:"target,omitempty"`
	Code    string    `json:"code,omitempty"`
}

// ring is an errors document of a service born some time ago.
type ring struct {
	age     time.Duration
	dropped int
	gone    map[string]any // by layer; nil where the service does not tell
	entries []entry
}

// every adds an error of a layer every step from some time ago to another.
func (r ring) every(step, from, to time.Duration, layer, message string) ring {
	for d := from; d > to; d -= step {
		r.entries = append(r.entries, entry{At: now.Add(-d), Message: message, Layer: layer, Code: "ECONNREFUSED", Target: "profile-service"})
	}
	return r
}

func (r ring) doc() string {
	if r.entries == nil {
		r.entries = []entry{}
	}
	doc := map[string]any{
		"now": now, "started_at": now.Add(-r.age), "capacity": 1000, "recorded": len(r.entries) + r.dropped, "errors": r.entries,
	}
	if r.gone != nil {
		doc["gone"] = r.gone
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func changed(ago ...time.Duration) string {
	list := []map[string]any{}
	for _, d := range ago {
		list = append(list, map[string]any{
			"at": now.Add(-d), "kind": "config", "what": "followup_url", "by": "anna",
			"from": "http://profile/hook", "to": "http://bot:hunter2@127.0.0.1:9/hook/T0K3N",
		})
	}
	b, err := json.Marshal(map[string]any{"now": now, "changes": list})
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func check(t *testing.T, errs, changes string) probes.Evidence {
	t.Helper()
	c := probetest.NewChecker(t, map[string]string{source.PathErrors: errs, source.PathChanges: changes})
	kind := Kind(c.Source(t))
	p, err := kind.New(defaults)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	probetest.Valid(t, kind.Facts, ev, err)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestContract(t *testing.T) {
	r := ring{age: time.Hour}.every(10*time.Second, 100*time.Second, 0, "redis", "i/o timeout")
	probetest.Run(t, probetest.Subject{
		Kind: Kind, Decode: defaults,
		Docs:    map[string]string{source.PathErrors: r.doc(), source.PathChanges: changed(30 * time.Second)},
		Allowed: []string{"GET " + source.PathErrors, "GET " + source.PathChanges}, Requests: 2,
	})
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	ev := check(t, ring{age: time.Hour}.doc(), changed())
	for _, name := range []string{"errors", "errors_rate", "baseline_rate", "groups", "new_groups", "new_errors", "new_errors_share", "other_errors", "change_before_new_errors"} {
		probetest.Want(t, ev, name, 0)
	}
	probetest.WantMoot(t, ev, "seconds_since_change", "no change")
	probetest.WantMoot(t, ev, "seconds_change_to_first_new_error", "no change")
	ev = check(t, ring{age: time.Hour}.doc(), changed(time.Minute))
	probetest.WantMoot(t, ev, "seconds_change_to_first_new_error", "no error is of a new kind")
}

// TestWhatIsNewIsNotKnown: an error that may be new is no reason to think that
// there is nothing to measure.
func TestWhatIsNewIsNotKnown(t *testing.T) {
	t.Parallel()
	r := ring{age: 10 * time.Second}.every(time.Second, 10*time.Second, 0, "redis", "i/o timeout")
	ev := check(t, r.doc(), changed(9*time.Second))
	wantGap(t, ev, "seconds_change_to_first_new_error", "what is new cannot be told")
	ev = check(t, r.doc(), `{"now":"2026-11-30T16:00:00Z","changes":[{"kind":"config"}]}`)
	for _, name := range changeFacts {
		wantGap(t, ev, name, "no change has a time")
	}
}

func wantGap(t *testing.T, ev probes.Evidence, name, why string) {
	t.Helper()
	probetest.WantMissing(t, ev, name, why)
	for _, m := range ev.Missing {
		if m.Moot && slices.Contains(m.Facts, name) {
			t.Errorf("%s counts as moot: %s", name, m.Reason)
		}
	}
}

func TestBurstAfterAChange(t *testing.T) {
	t.Parallel()
	r := ring{age: time.Hour}.
		every(4*time.Second, 120*time.Second, 0, "redis", "redis: read took 12ms: i/o timeout").
		every(time.Second, 20*time.Second, 0, "event", `registration follow-up of "anna" failed: dial tcp 127.0.0.1:9: connect: connection refused`)
	ev := check(t, r.doc(), changed(time.Hour, 22*time.Second))
	for name, want := range map[string]float64{
		"errors": 15 + 20, "errors_rate": 35.0 / 60, "baseline_rate": 15.0 / 60, "groups": 2, "new_groups": 1, "new_errors": 20,
		"new_errors_share": 20.0 / 35, "redis_errors": 15, "shard_errors": 0, "other_errors": 20, "new_other_errors": 20,
		"seconds_since_change": 22, "seconds_change_to_first_new_error": 2, "change_before_new_errors": 1,
		"change_tied": 1, "change_of_behaviour": 1, "seconds_since_recent_change": 22,
	} {
		probetest.Want(t, ev, name, want)
	}
	first := ev.Rows[len(ev.Rows)-2]
	if first.Table != "errors" || first.Key != "registration follow-up of <str> failed: dial tcp <addr>: connect: connection refused" ||
		first.Value != 20 || first.Note != "layer event, code ECONNREFUSED, target profile-service, first 20s ago, last 1s ago, new" {
		t.Errorf("first of the errors: got %+v", first)
	}
	if last := ev.Rows[len(ev.Rows)-1]; !strings.Contains(last.Note, "×1.0 of baseline") {
		t.Errorf("second of the errors: got %+v", last)
	}
	all := fmt.Sprint(ev)
	for _, secret := range []string{"hunter2", "T0K3N", "anna"} {
		if strings.Contains(all, secret) {
			t.Errorf("%q survives in %s", secret, all)
		}
	}
}

func TestChangesThatAreNotTheCause(t *testing.T) {
	t.Parallel()
	r := ring{age: 3 * time.Hour}.every(time.Second, 20*time.Second, 0, "event", "follow-up failed: no answer")
	ev := check(t, r.doc(), changed(5*time.Second))
	probetest.Want(t, ev, "change_before_new_errors", 0)
	probetest.Want(t, ev, "seconds_since_change", 5)
	probetest.WantMoot(t, ev, "seconds_change_to_first_new_error", "no change came before")
	ev = check(t, r.doc(), changed(time.Hour))
	probetest.Want(t, ev, "change_before_new_errors", 0)
	probetest.Want(t, ev, "change_tied", 0)
	probetest.WantMoot(t, ev, "seconds_since_recent_change", "not changed in the last 10 minutes")
	probetest.Want(t, ev, "seconds_change_to_first_new_error", 3580)
	// New errors of Redis are not what a change of the follow-up is asked about.
	r = ring{age: 3 * time.Hour}.every(time.Second, 20*time.Second, 0, "redis", "i/o timeout")
	ev = check(t, r.doc(), changed(21*time.Second))
	probetest.Want(t, ev, "change_before_new_errors", 0)
	probetest.Want(t, ev, "new_other_errors", 0)
	probetest.Want(t, ev, "new_errors", 20)
}

// A service that has just started has no full baseline. A quiet time before
// the first error will do if errors would have come in it.
func TestYoungService(t *testing.T) {
	t.Parallel()
	f := func(age, from time.Duration, step time.Duration, fresh float64) {
		t.Helper()
		ev := check(t, ring{age: age}.every(step, from, 0, "event", "follow-up failed: no answer").doc(), changed(from+time.Second))
		if fresh < 0 {
			probetest.WantMissing(t, ev, "new_errors", "restart")
			probetest.WantMissing(t, ev, "change_before_new_errors", "restart")
			return
		}
		probetest.Want(t, ev, "new_groups", fresh)
		probetest.Want(t, ev, "change_before_new_errors", 1)
	}
	f(13*time.Second, 5*time.Second, 100*time.Millisecond, 1)
	f(13*time.Second, 12500*time.Millisecond, 100*time.Millisecond, -1) // from the start on
	f(13*time.Second, 9*time.Second, 8*time.Second, -1)                 // too rare to tell
	ev := check(t, ring{age: 13 * time.Second}.every(time.Second, 5*time.Second, 0, "event", "x failed").doc(), changed())
	probetest.Want(t, ev, "errors_rate", 5.0/13)
	probetest.WantMissing(t, ev, "baseline_rate", "13s only")
}

// A ring that has dropped its older entries does not know the baseline, unless
// what it dropped cannot account for the present rate.
func TestDroppedEntries(t *testing.T) {
	t.Parallel()
	flood := ring{age: time.Hour}.every(10*time.Millisecond, 10*time.Second, 0, "event", "follow-up failed: no answer")
	flood.dropped = 2000 // 20 s of it
	ev := check(t, flood.doc(), changed(31*time.Second))
	probetest.Want(t, ev, "errors_rate", 100)
	probetest.WantMissing(t, ev, "baseline_rate", "dropped older errors")
	probetest.Want(t, ev, "new_errors", 1000)
	probetest.Want(t, ev, "change_before_new_errors", 1)
	probetest.WantMissing(t, ev, "seconds_change_to_first_new_error", "dropped the first errors")

	flood.dropped = 200000 // it has always been like this
	ev = check(t, flood.doc(), changed(31*time.Second))
	probetest.WantMissing(t, ev, "new_errors", "dropped older errors")
	probetest.WantMissing(t, ev, "change_before_new_errors", "dropped older errors")
	if row := ev.Rows[len(ev.Rows)-1]; !strings.Contains(row.Note, "baseline unknown") {
		t.Errorf("row: got %+v", row)
	}
}

// A storm in one layer leaves what is known of the others.
func TestStormInAnotherLayer(t *testing.T) {
	t.Parallel()
	storm := ring{age: time.Hour}.every(5*time.Second, time.Minute, 0, "event", "follow-up failed: no answer").
		every(10*time.Millisecond, 10*time.Second, 0, "redis", "connection pool timeout")
	storm.dropped = 200000
	storm.gone = map[string]any{"redis": map[string]any{"count": 200000, "kept_since": now.Add(-10 * time.Second)}}
	ev := check(t, storm.doc(), changed())
	probetest.Want(t, ev, "errors", 1012)
	probetest.Want(t, ev, "errors_rate", 100.2) // of the time from which all are there
	probetest.Want(t, ev, "new_other_errors", 12)

	storm.gone = map[string]any{"redis": map[string]any{"count": 200000}} // and since when?
	ev = check(t, storm.doc(), changed())
	probetest.WantMissing(t, ev, "new_other_errors", "dropped older errors")
}

func TestLayerFromTheText(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]groupKey{
		"redis: connection pool timeout":                  {layer: "redis"},
		"FATAL: sorry, too many clients (SQLSTATE 53300)": {layer: "shard", code: "53300"},
		"ERR non scaling filter is full":                  {layer: "bloom"},
		"context deadline exceeded":                       {layer: "unknown"},
	} {
		if got := keyOf(source.LoggedError{Message: message}); got != want {
			t.Errorf("%q: got %+v, want %+v", message, got, want)
		}
	}
	if got := keyOf(source.LoggedError{Layer: "<b>", Code: "a b"}); got != (groupKey{layer: "unknown"}) {
		t.Errorf("nonsense: got %+v", got)
	}
}

func TestHarmless(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ what, value, want string }{
		{"followup_url", "https://u:p@h.example/x?y=z", "https://h.example"},
		{"slack_token", "xoxb", "<secret>"},
		{"db_password", "x", "<secret>"},
		{"dsn", "host=h password=x", "<*>"},
		{"build", "4f3c2b1a4f3c2b1a4f3c", "<*>"},
		{"pool_size", "20", "20"},
		{"flag", "", "(none)"},
		{"url", "http://%zz", "<url>"},
	} {
		if got := harmless(tt.what, tt.value); got != tt.want {
			t.Errorf("%s=%s: got %q, want %q", tt.what, tt.value, got, tt.want)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, time.Second, 2 * time.Hour} {
		if _, err := Kind(nil).New(func(o any) error { o.(*Options).Lookback = d; return nil }); err == nil {
			t.Errorf("lookback %v: got no error", d)
		}
	}
	if _, err := Kind(nil).New(func(any) error { return errors.New("line 7: no such option") }); err == nil {
		t.Error("an error of decode is lost")
	}
}

func FuzzLook(f *testing.F) {
	r := ring{age: time.Minute}.every(time.Second, 20*time.Second, 0, "event", "a b c failed")
	f.Add(r.doc(), changed(time.Second))
	f.Add(`{"now":"2026-11-30T16:00:00Z","errors":[{"at":"9999-11-30T16:00:00Z"},{"at":"0001-01-01T00:00:01Z"}]}`, `{"changes":[{"at":"0001-01-01T00:00:01Z"}]}`)
	f.Fuzz(func(t *testing.T, errs, changes string) {
		var doc source.Errors
		var list source.Changes
		if json.Unmarshal([]byte(errs), &doc) != nil || json.Unmarshal([]byte(changes), &list) != nil {
			return
		}
		rec := probes.NewRecorder(facts())
		v, err := look(doc, time.Minute)
		recordChanges(rec, list, v, err)
		if err == nil {
			v.record(rec)
		}
		ev, err := rec.Evidence("fuzz", 0)
		probetest.Valid(t, facts(), ev, err)
	})
}

// TestTies: errors that name what was changed come of it; those that only come
// after it may not.
func TestTies(t *testing.T) {
	t.Parallel()
	f := func(want bool, message, target string, c source.Change) {
		t.Helper()
		k := &kind{samples: []string{strings.ToLower(message + " " + target)}}
		if got := tiedTo(k, c); got != want {
			t.Errorf("%q at %q after %+v: tied %v, want %v", message, target, c, got, want)
		}
	}
	url := source.Change{Kind: "config", What: "followup_url", From: "http://profile/hook", To: "http://127.0.0.1:9/hook"}
	f(true, "dial tcp 127.0.0.1:9: connect: connection refused", "", url)
	f(false, "dial tcp 127.0.0.1:90: connect: connection refused", "", url)
	f(false, "dial tcp 127.0.0.1:80: connect: connection refused", "", url)
	f(true, "Followup_URL: unsupported scheme", "", url)
	f(false, "no follow-up", "profile-service", url)
	f(true, "no such host", "hooks.example", source.Change{What: "x", To: "https://hooks.example:8443/a"})
	f(true, "flag NEW_MATCHER panicked", "", source.Change{Kind: "flag", What: "new_matcher", From: "off", To: "on"})
	scale := source.Change{Kind: "scale", What: "replicas", From: "1000", To: "2000"}
	f(false, "write /var/lib/x: disk quota exceeded", "", scale)
	f(false, "2000 bytes written: disk quota exceeded", "", scale)
	f(false, "took 500ms", "", source.Change{What: "a", To: "500ms"})
	f(false, "anything", "", source.Change{})
	f(false, "", "", source.Change{What: strings.Repeat("x", 10_000), To: "%zz://"})
}

// TestTheChangeThatIsNamed: of two changes the one that the errors name is the
// suspect, not the last.
func TestTheChangeThatIsNamed(t *testing.T) {
	t.Parallel()
	changes := func(scaleAgo, flagAgo time.Duration) string {
		return fmt.Sprintf(`{"now":%q,"changes":[{"at":%q,"kind":"scale","what":"replicas","from":"4","to":"8"},{"at":%q,"kind":"flag","what":"new_matcher","to":"on"}]}`,
			now.Format(time.RFC3339), now.Add(-scaleAgo).Format(time.RFC3339), now.Add(-flagAgo).Format(time.RFC3339))
	}
	r := ring{age: time.Hour}.every(time.Second, 20*time.Second, 0, "app", "new_matcher: index out of bounds")
	ev := check(t, r.doc(), changes(25*time.Second, 90*time.Second))
	probetest.Want(t, ev, "change_tied", 1)
	probetest.Want(t, ev, "change_of_behaviour", 1)
	if first := ev.Rows[0]; first.Table != "changes" || first.Key != "new_matcher" || first.Value != 90 {
		t.Errorf("first of the changes: got %+v, want the one that is named", first)
	}
	r = ring{age: time.Hour}.every(time.Second, 20*time.Second, 0, "app", "write: disk quota exceeded")
	ev = check(t, r.doc(), changes(25*time.Second, 90*time.Second))
	probetest.Want(t, ev, "change_before_new_errors", 1)
	probetest.Want(t, ev, "change_tied", 0)
	probetest.Want(t, ev, "change_of_behaviour", 0)
}

// TestEnded: errors of a new kind end if none comes for several times as long as they
// were apart, and for five seconds.
func TestEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count           int
		apart, silence  time.Duration
		ended, ofOthers float64
		layer           string
	}{
		{count: 40, apart: 200 * time.Millisecond, silence: 14 * time.Second, ended: 1, ofOthers: 1, layer: "followup"},
		{count: 40, apart: 200 * time.Millisecond, silence: 4 * time.Second, layer: "followup"},
		{count: 10, apart: 2 * time.Second, silence: 14 * time.Second, layer: "followup"},
		{count: 40, apart: 200 * time.Millisecond, silence: 14 * time.Second, ended: 1, layer: "redis"},
		{count: 1, silence: 14 * time.Second, ended: 1, ofOthers: 1, layer: "followup"},
		{},
	} {
		r := ring{age: time.Hour}
		for i := range c.count {
			r.entries = append(r.entries, entry{At: now.Add(-c.silence - time.Duration(i)*c.apart), Message: "mail: connection refused", Layer: c.layer})
		}
		ev := check(t, r.doc(), `{"now":"2026-11-30T16:00:00Z","changes":[]}`)
		probetest.Want(t, ev, "new_errors_ended", c.ended)
		probetest.Want(t, ev, "new_other_errors_ended", c.ofOthers)
	}
}

func TestCodes(t *testing.T) {
	t.Parallel()
	r := ring{age: time.Hour}
	for code, n := range map[string]int{"25006": 1, "23505": 2, "53300": 3, "08P01": 4} {
		for i := range n {
			r.entries = append(r.entries, entry{At: now.Add(-time.Duration(i+1) * time.Second), Message: "claim: refused", Layer: "shard", Target: "shard1", Code: code})
		}
	}
	// Of a service that names no codes, and of a minute before.
	r.entries = append(r.entries, entry{At: now.Add(-time.Second), Message: "ERROR: cannot execute INSERT in a read-only transaction (SQLSTATE 25006)"},
		entry{At: now.Add(-70 * time.Second), Message: "claim: refused", Layer: "shard", Code: "25006"})
	ev := check(t, r.doc(), `{"now":"2026-11-30T16:00:00Z","changes":[]}`)
	for name, want := range map[string]float64{"read_only_errors": 2, "conflict_errors": 2, "slot_errors": 3, "pooler_errors": 4, "shard_refusals": 2, "shard_errors": 11} {
		probetest.Want(t, ev, name, want)
	}
}
