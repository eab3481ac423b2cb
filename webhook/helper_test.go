package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/regpath/diagnose/playbooks"
)

// noon is shortly after the captured payloads were sent.
func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// call is one call of a fakeWorker.
type call struct {
	in      playbooks.Incident
	attempt int
}

// fakeWorker records its calls and then does what do says.
type fakeWorker struct {
	do    func(ctx context.Context, in playbooks.Incident, memo Memo) error
	mu    sync.Mutex
	calls []call
}

func (w *fakeWorker) Work(ctx context.Context, in playbooks.Incident, memo Memo) error {
	w.mu.Lock()
	w.calls = append(w.calls, call{in, memo.Attempt()})
	w.mu.Unlock()
	if w.do == nil {
		return nil
	}
	return w.do(ctx, in, memo)
}

func (w *fakeWorker) all() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// openInbox opens an inbox in a folder of its own and stops it at the end.
func openInbox(t testing.TB, opts Options) *Inbox {
	t.Helper()
	return openInboxAt(t, newStore(t), opts)
}

// template is an empty store. Making its tables takes most of the time of a
// first Open, above all under the race detector.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "webhook-test-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "store.db")
	in, err := Open(context.Background(), path, Options{Worker: &fakeWorker{}})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = in.Stop(context.Background())
	b, readErr := os.ReadFile(path)
	return b, errors.Join(err, readErr, os.RemoveAll(dir))
})

func openInboxAt(t testing.TB, path string, opts Options) *Inbox {
	t.Helper()
	if opts.Worker == nil {
		opts.Worker = &fakeWorker{}
	}
	if opts.Now == nil {
		opts.Now = noon
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !IsPostgres(path) {
		b, err := template()
		if err != nil {
			t.Fatalf("make an empty store: %v", err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	if _, isBenchmark := t.(*testing.B); !isBenchmark && !in.store.shared {
		// No test cuts the power, and a hundred stores would wait for one disk.
		if _, err := in.store.write.ExecContext(t.Context(), `PRAGMA synchronous = OFF`); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { stop(t, in) })
	return in
}

func stop(t testing.TB, in *Inbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := in.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func start(t testing.TB, in *Inbox) {
	t.Helper()
	// Not t.Context: it ends before the cleanup that stops the inbox.
	if err := in.Start(context.Background()); err != nil {
		t.Fatalf("Start: %v", err)
	}
}

// readCase reads a captured or synthetic payload.
func readCase(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "alertmanager", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newHandler is a Handler that has patience with a busy machine.
func newHandler(in *Inbox) http.Handler {
	return Handler(in, HandlerOptions{StoreTimeout: time.Minute})
}

// request makes a request as Alertmanager does.
func request(body []byte) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/alertmanager", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// serve hands r to h and returns the status and the answer.
func serve(t testing.TB, h http.Handler, r *http.Request) (int, answer) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	var a answer
	if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil {
		t.Fatalf("answer %q: %v", rec.Body, err)
	}
	return rec.Code, a
}

// post posts a body and returns the status and the effects on incidents.
func post(t testing.TB, h http.Handler, body []byte) (int, []Effect) {
	t.Helper()
	code, a := serve(t, h, request(body))
	var effects []Effect
	for _, o := range a.Incidents {
		effects = append(effects, o.Effect)
	}
	return code, effects
}

// wantPost posts a case and checks the effect; none when it is empty.
func wantPost(t testing.TB, h http.Handler, name string, want ...Effect) {
	t.Helper()
	if code, got := post(t, h, readCase(t, name)); code != http.StatusOK || !slices.Equal(got, want) {
		t.Errorf("post %s: got %d %v, want 200 %v", name, code, got, want)
	}
}

// fetch makes a real request with a JSON body, none if it is empty, and returns
// the status.
func fetch(t testing.TB, method, url, body string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// incidents lists all of them, the oldest first.
func incidents(t testing.TB, in *Inbox) []IncidentRow {
	t.Helper()
	rows, err := in.List(t.Context(), Filter{})
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	slices.Reverse(rows)
	return rows
}

// onlyIncident returns the one there is.
func onlyIncident(t testing.TB, in *Inbox) IncidentRow {
	t.Helper()
	rows := incidents(t, in)
	if len(rows) != 1 {
		t.Fatalf("got %d incidents, want 1: %+v", len(rows), rows)
	}
	return rows[0]
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// settle waits until all news has been worked through and no job is left.
func settle(t testing.TB, in *Inbox) {
	t.Helper()
	eventually(t, "all news worked through", func() bool {
		var pending, jobs int
		if err := in.store.read.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM incidents WHERE worked < revision),
			(SELECT count(*) FROM river_job WHERE kind = 'incident' AND finalized_at IS NULL)`).Scan(&pending, &jobs); err != nil {
			t.Fatal(err)
		}
		return pending == 0 && jobs == 0
	})
}

// counted returns the value of a counter or gauge, or the number of samples of
// a histogram; label is the value of its only label, if it has one.
func counted(t testing.TB, in *Inbox, name, label string) float64 {
	t.Helper()
	families, err := in.opts.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 0 || l[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// message builds a payload of one group. Each alert is "name status startMinute
// endMinute" in minutes before noon; "" as end means none.
func message(group string, extra map[string]any, alerts ...alertSpec) []byte {
	list := []map[string]any{}
	for _, a := range alerts {
		labels := map[string]string{"alertname": "Down", "instance": a.name, "severity": "P0"}
		list = append(list, map[string]any{
			"status": a.status, "labels": labels, "annotations": map[string]string{"summary": a.name + " is down"},
			"startsAt": a.starts, "endsAt": a.ends, "fingerprint": fingerprint(labels),
		})
	}
	m := map[string]any{
		"version": "4", "groupKey": fmt.Sprintf("{}:{alertname=%q}", group), "receiver": "team", "status": "firing",
		"groupLabels": map[string]string{"alertname": group}, "alerts": list, "truncatedAlerts": 0,
	}
	maps.Copy(m, extra)
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

type alertSpec struct {
	name, status, starts, ends string
}

// at is a time some minutes before noon, as Alertmanager spells it.
func at(minutes int) string {
	return noon().Add(-time.Duration(minutes) * time.Minute).Format(time.RFC3339Nano)
}

func firing(name string, starts int) alertSpec {
	return alertSpec{name, "firing", at(starts), "0001-01-01T00:00:00Z"}
}

func resolved(name string, starts, ends int) alertSpec {
	return alertSpec{name, "resolved", at(starts), at(ends)}
}
