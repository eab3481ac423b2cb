package webhook

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// wantNothing checks that a failed Store left nothing behind.
func wantNothing(t *testing.T, in *Inbox) {
	t.Helper()
	var n int
	if err := in.store.read.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM incidents) + (SELECT count(*) FROM alerts) +
		(SELECT count(*) FROM ended) + (SELECT count(*) FROM river_job WHERE kind = 'incident')`).Scan(&n); err != nil || n != 0 {
		t.Errorf("got %d rows, %v, want none", n, err)
	}
}

// TestStoreFaults: what cannot be stored is a 503, nothing of it stays, and the
// repetition is taken in once the fault is gone.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	pragma := func(t *testing.T, in *Inbox, q string) {
		t.Helper()
		if _, err := in.store.write.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	for _, tt := range []struct {
		name string
		// fault breaks the store and returns what mends it.
		fault func(t *testing.T, in *Inbox) func()
	}{
		{"disk full", func(t *testing.T, in *Inbox) func() {
			// SQLite answers as it does when a write finds no space.
			pragma(t, in, `VACUUM`)
			var pages string
			if err := in.store.write.QueryRowContext(t.Context(), `PRAGMA page_count`).Scan(&pages); err != nil {
				t.Fatal(err)
			}
			pragma(t, in, `PRAGMA max_page_count = `+pages)
			return func() { pragma(t, in, `PRAGMA max_page_count = 1000000`) }
		}},
		{"read-only", func(t *testing.T, in *Inbox) func() {
			pragma(t, in, `PRAGMA query_only = ON`)
			return func() { pragma(t, in, `PRAGMA query_only = OFF`) }
		}},
		{"locked by another process", func(t *testing.T, in *Inbox) func() {
			pragma(t, in, `PRAGMA busy_timeout = 20`)
			other, err := sql.Open("sqlite", sqliteDSN(in.store.name, "_txlock=immediate"))
			if err != nil {
				t.Fatal(err)
			}
			tx, err := other.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			}
		}},
		{"table gone", func(t *testing.T, in *Inbox) func() {
			// The last statement of the transaction fails: the first must not stay.
			pragma(t, in, `ALTER TABLE river_job RENAME TO hidden`)
			return func() { pragma(t, in, `ALTER TABLE hidden RENAME TO river_job`) }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := openInbox(t, Options{})
			h := newHandler(in)
			mend := tt.fault(t, in)
			code, a := serve(t, h, request(readCase(t, "32-60-alerts.json")))
			if code != http.StatusServiceUnavailable || a.Reason != "store" {
				t.Errorf("got %d %q, want 503 store", code, a.Reason)
			}
			if strings.Contains(a.Error, "SQL") || strings.Contains(a.Error, in.store.name) {
				t.Errorf("the answer tells too much: %q", a.Error)
			}
			mend()
			wantNothing(t, in)
			wantPost(t, h, "32-60-alerts.json", Opened)
		})
	}
}

// TestOpenFaults: a store that cannot be used is refused with what to do.
func TestOpenFaults(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  string
	}{
		{"not a database", func(t *testing.T, path string) {
			write(t, path, strings.Repeat("this is no database ", 1000))
		}, "is damaged"},
		{"a device", func(t *testing.T, path string) {
			if err := os.Symlink(os.DevNull, path); err != nil {
				t.Fatal(err)
			}
		}, "a device"},
		{"torn in the middle", func(t *testing.T, path string) {
			in := openInboxAt(t, path, Options{})
			wantPost(t, newHandler(in), "32-60-alerts.json", Opened)
			stop(t, in)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := len(b) / 4; i < len(b)*3/4; i++ {
				b[i] = 0x5a
			}
			write(t, path, string(b))
		}, "is damaged"},
		{"in use", func(t *testing.T, path string) {
			openInboxAt(t, path, Options{})
		}, "is in use by another process"},
		{"from a newer version", func(t *testing.T, path string) {
			in := openInboxAt(t, path, Options{})
			if _, err := in.store.write.ExecContext(t.Context(), `PRAGMA user_version = 99`); err != nil {
				t.Fatal(err)
			}
			stop(t, in)
		}, "has version 99, this program knows version 5"},
		{"no folder", func(t *testing.T, path string) {
			if err := os.Remove(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
		}, "the folder must exist"},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a folder"},
		{"damaged lock", func(t *testing.T, path string) {
			write(t, path+".lock", strings.Repeat("no lock ", 1000))
		}, "remove "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store ?#%41", "store.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, path)
			in, err := Open(t.Context(), path, Options{Worker: &fakeWorker{}})
			if err == nil {
				stop(t, in)
				t.Fatal("Open: got no error")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Open: got %q, want it to name the store and say %q", err, tt.want)
			}
		})
	}
}

// TestReopen: commits outlast a power cut, nobody else may read the file, and
// stopping gives lock and metrics back.
func TestReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	opts := Options{Worker: &fakeWorker{}}.withDefaults()
	for range 3 {
		in, err := Open(t.Context(), path, opts)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		var mode string
		var sync int
		if err := in.store.write.QueryRowContext(t.Context(), `SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous`).Scan(&mode, &sync); err != nil || mode != "wal" || sync != 2 {
			t.Errorf("got journal %s and synchronous %d, %v, want wal and 2 (FULL)", mode, sync, err)
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if fi, err := os.Stat(path + suffix); err != nil || fi.Mode().Perm() != 0o600 {
				t.Errorf("permissions of store.db%s: got %v, %v, want -rw-------", suffix, fi.Mode(), err)
			}
		}
		stop(t, in)
	}
}

// TestStorm: what is kept of a storm is bounded, and it can still be resolved.
func TestStorm(t *testing.T) {
	t.Parallel()
	w := &fakeWorker{}
	in := openInbox(t, Options{Worker: w})
	h := newHandler(in)
	begun := time.Now()
	wantPost(t, h, "33-5000-alerts.json", Opened)
	first := time.Since(begun)
	wantPost(t, h, "33-5000-alerts.json", Repeated)
	t.Logf("5,000 alerts: stored in %s, repeated in %s", first, time.Since(begun)-first)
	start(t, in)
	settle(t, in)
	got := w.all()
	if len(got) != 1 || len(got[0].in.Alerts) != maxKept || got[0].in.HiddenAlerts != 5000-maxKept {
		t.Fatalf("got %d runs with %d alerts and %d hidden, want 1 with %d and %d", len(got), len(got[0].in.Alerts), got[0].in.HiddenAlerts, maxKept, 5000-maxKept)
	}
	m, err := Decode(readCase(t, "33-5000-alerts.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Alerts {
		m.Alerts[i].Firing, m.Alerts[i].EndsAt = false, noon()
	}
	out, err := in.Store(t.Context(), m)
	if err != nil || len(out) != 1 || out[0].Effect != Closed {
		t.Errorf("all resolved: got %v, %v, want resolved", out, err)
	}
}

// TestStormMemory is not parallel: all that is allocated meanwhile is its own,
// and more than what is held at any time.
func TestStormMemory(t *testing.T) {
	in := openInbox(t, Options{})
	h := newHandler(in)
	r := request(readCase(t, "33-5000-alerts.json"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if code, _ := serve(t, h, r); code != http.StatusOK {
		t.Fatalf("got %d, want 200", code)
	}
	runtime.ReadMemStats(&after)
	used := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("a body of 1.7 MiB with 5,000 alerts: %d MiB allocated", used)
	if used > 64 {
		t.Errorf("allocated %d MiB, want at most 64", used)
	}
}

// TestBounds: one huge alert, and many large ones, fit.
func TestBounds(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	m := Message{GroupKey: "x"}
	for i := range 40 {
		a := firing(strings.Repeat("n", i+1), 5)
		one, err := Decode(message("x", nil, a))
		if err != nil {
			t.Fatal(err)
		}
		alert := one.Alerts[0]
		alert.Annotations = map[string]string{"description": strings.Repeat("é", 200_000)}
		for j := range 100 {
			alert.Annotations["k"+strings.Repeat("k", j)] = strings.Repeat("v", 10_000)
		}
		m.Alerts = append(m.Alerts, alert)
	}
	if _, err := in.Store(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var total, largest int
	if err := in.store.read.QueryRowContext(t.Context(), `SELECT sum(length(body)), max(length(body)) FROM alerts`).Scan(&total, &largest); err != nil {
		t.Fatal(err)
	}
	if total > maxKeptBytes+2*maxAlertBytes || largest > 2*maxAlertBytes {
		t.Errorf("kept %d bytes, %d for one alert, want at most %d and %d", total, largest, maxKeptBytes, maxAlertBytes)
	}
	inc, _, err := load(t.Context(), in.store.read, onlyIncident(t, in).ID)
	if err != nil || len(inc.Alerts) == 0 || uint64(len(inc.Alerts))+inc.HiddenAlerts != 40 || inc.Alerts[0].Labels["alertname"] != "Down" {
		t.Errorf("got %d alerts and %d hidden, %v, want 40 in all, with their labels", len(inc.Alerts), inc.HiddenAlerts, err)
	}
}

// TestTooMany: beyond maxTracked alerts are counted, and keep the incident open.
func TestTooMany(t *testing.T) {
	t.Parallel()
	m, err := Decode(message("x", nil, firing("a", 5), firing("b", 5), firing("c", 5), resolved("d", 5, 1)))
	if err != nil {
		t.Fatal(err)
	}
	seen := &roll{named: map[string]sighting{}}
	d := fold(&m, seen, map[string]ending{}, noon(), 2)
	if seen.size() != 2 || d.untracked != 1 || d.closes || !d.news {
		t.Errorf("got %d tracked, %+v, want 2 and 1 untracked", seen.size(), d)
	}
}

// TestNoStore: what is listed is the store of an agent, and nothing is made beside
// what is not.
func TestNoStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (x)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text, empty := filepath.Join(dir, "text"), filepath.Join(dir, "empty")
	for path, content := range map[string]string{text: "this is no database at all", empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		other: "the database is not the store of an agent", text: text + " is not the store of an agent",
		empty: empty + " is not the store of an agent", dir: "is not the store of an agent", dir + "/gone": "no such file",
	} {
		if _, err := List(t.Context(), path, Filter{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("got %d files in the folder (%v), want the 3 of the test", len(entries), err)
	}
}
