package webhook

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// The rows about how things are spelt.

func testR15(t *testing.T, in *Inbox, h http.Handler) {
	anonymous := func(receiver, status, ends string) []byte {
		return fmt.Appendf(nil, `{"receiver":%q,"groupLabels":{"b":"2","a":"1"},"alerts":[{"status":%q,"labels":{"alertname":"X"},"startsAt":%q,"endsAt":%q}]}`,
			receiver, status, at(9), ends)
	}
	for _, step := range []struct {
		body []byte
		want []Effect
	}{
		{anonymous("r", "firing", ""), []Effect{Opened}},
		{anonymous("r", "firing", ""), []Effect{Repeated}},
		{anonymous("other", "resolved", at(1)), nil},
		{anonymous("r", "resolved", at(1)), []Effect{Closed}},
	} {
		if code, got := post(t, h, step.body); code != http.StatusOK || !slices.Equal(got, step.want) {
			t.Errorf("post %s: got %d %v, want %v", step.body, code, got, step.want)
		}
	}
	onlyIncident(t, in)
}

func testR16(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "15-time-garbage.json", Opened)
	if r := onlyIncident(t, in); !r.StartedAt.Equal(time.Date(2026, 11, 30, 10, 34, 45, 98536000, time.UTC)) {
		t.Errorf("StartedAt: got %s, want that of the readable alert", r.StartedAt)
	}
	for spelt, want := range map[string]time.Time{
		`"2026-11-30T11:00:00.123456789+05:30"`: time.Date(2026, 11, 30, 5, 30, 0, 123456789, time.UTC),
		`"0001-01-01T00:00:00Z"`:                {},
		`null`:                                  {},
	} {
		var s stamp
		if err := s.UnmarshalJSON([]byte(spelt)); err != nil || s.bad || !s.t.Equal(want) {
			t.Errorf("time %s: got %v, bad %t, %v, want %v", spelt, s.t, s.bad, err, want)
		}
	}
}

func testR18(t *testing.T, in *Inbox, h http.Handler) {
	wantPost(t, h, "v35-utf8-label-names-emoji-nul-rtl-slackmentions.json", Opened)
	inc, _, err := load(t.Context(), in.store.read, onlyIncident(t, in).ID)
	if err != nil {
		t.Fatal(err)
	}
	l := inc.Alerts[0].Labels
	if l["region/区域"] != "华东-1" || l["service.name"] != "zahlung" || l["nul"] != "a\x00b" || l["nl"] != "line1\nline2" {
		t.Errorf("labels did not survive: %q", l)
	}
}

func testR19(t *testing.T, in *Inbox, h http.Handler) {
	for quoted, want := range map[string]string{
		`team\.sre\+p0 \(night\)`:             `team.sre+p0 (night)`,
		`team.sre+p0 (night)`:                 `team.sre+p0 (night)`,
		`stage/infra-alertmanager-config/web`: `stage/infra-alertmanager-config/web`,
		`a\\b`:                                `a\b`,
		`trailing\`:                           `trailing\`,
		`C:\temp`:                             `C:\temp`,
		`\[x\]\{1\}\^\$\|\*\?`:                `[x]{1}^$|*?`,
	} {
		if got := receiverName(quoted); got != want {
			t.Errorf("receiver %q: got %q, want %q", quoted, got, want)
		}
	}
	for i, receiver := range []string{`team.sre`, `team\.sre`} {
		body := message("x", map[string]any{"receiver": receiver, "groupKey": ""}, firing("a", 5))
		if _, got := post(t, h, body); !slices.Equal(got, []Effect{[]Effect{Opened, Repeated}[i]}) {
			t.Errorf("receiver %q: got %v", receiver, got)
		}
	}
	if got := onlyIncident(t, in).Receiver; got != "team.sre" {
		t.Errorf("receiver: got %q, want team.sre", got)
	}
}
