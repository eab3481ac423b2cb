package webhook

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/regpath/diagnose/playbooks"
)

// FuzzDecode: no input makes it panic; every refusal has a reason; what is
// accepted has an identity that outlives being sent again, and folding it twice
// finds no news the second time.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "alertmanager", "*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 10_000 {
			f.Add(b)
		}
	}
	f.Add([]byte(`{"alerts":[{"labels":{"a":1}},{"status":{}},7],"truncatedAlerts":1e9,"version":4}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := Decode(body)
		if err != nil {
			if e, ok := errors.AsType[*DecodeError](err); !ok || e.Reason == "" || e.What == "" {
				t.Fatalf("refused with %#v, want a DecodeError with reason and text", err)
			}
			return
		}
		for _, a := range m.Alerts {
			if a.Fingerprint == "" || len(a.Fingerprint) > 64 || a.Firing && !a.EndsAt.IsZero() {
				t.Fatalf("alert %+v", a)
			}
		}
		if s := m.title(); s == "" || len(s) > 300 || !utf8.ValidString(s) {
			t.Fatalf("title %q", s)
		}
		again, err := Decode(encode(t, m))
		if err != nil {
			t.Fatalf("sent again: %v", err)
		}
		if got, want := again.group(), m.group(); got != want {
			t.Fatalf("sent again: group %v, want %v", got, want)
		}
		if got, want := fingerprints(&again), fingerprints(&m); !reflect.DeepEqual(got, want) {
			t.Fatalf("sent again: alerts %v, want %v", got, want)
		}
		seen, ended := &roll{named: map[string]sighting{}}, map[string]ending{}
		if d := fold(&m, seen, ended, noon(), maxTracked); d.closes && !d.current {
			t.Fatalf("closes by old news: %+v", d)
		}
		// An alert that is in there twice, fired and ended, may go on changing.
		if seen.size() == len(m.Alerts) {
			if d := fold(&m, seen, ended, noon(), maxTracked); d.news {
				t.Fatalf("news in a repetition: %+v", d)
			}
		}
	})
}

// encode spells a message as a sender does.
func encode(t *testing.T, m Message) []byte {
	t.Helper()
	type alert struct {
		Status      string            `json:"status"`
		Labels      map[string]string `json:"labels"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt"`
		Fingerprint string            `json:"fingerprint"`
	}
	list := []alert{}
	for _, a := range m.Alerts {
		list = append(list, alert{status(a), a.Labels, a.StartsAt, a.EndsAt, a.Fingerprint})
	}
	b, err := json.Marshal(map[string]any{
		"version": "4", "groupKey": m.GroupKey, "receiver": m.Receiver, "groupLabels": m.GroupLabels, "alerts": list,
		"truncatedAlerts": m.Hidden, "notification_reason": m.Reason,
	})
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

func status(a playbooks.Alert) string {
	if a.Firing {
		return "firing"
	}
	return "resolved"
}

// FuzzClip: the cut is short enough, is a prefix, and cuts no rune.
func FuzzClip(f *testing.F) {
	f.Add("héllo", 2)
	f.Add("日本語", 4)
	f.Add("\xff\xfe", 1)
	f.Add("\x80\x80\x80", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 {
			return
		}
		got := clip(s, n)
		if len(got) > n || got != s[:len(got)] || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("clip(%q, %d): got %q", s, n, got)
		}
		if l := loggable(s, n); !utf8.ValidString(l) || len(l) > 10*n+8 {
			t.Fatalf("loggable(%q, %d): got %q", s, n, l)
		}
	})
}
