package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/webhook"
)

// TestSurvey: whatever is missing, twice, or not final is seen, and only that.
func TestSurvey(t *testing.T) {
	t.Parallel()
	c := chaos{alerts: 5, groups: 2} // the first has three, the second resolves
	rows := func() []webhook.IncidentRow {
		return []webhook.IncidentRow{{ID: "a", Title: "Chaos0000", Alerts: 3}, {ID: "b", Title: "Chaos0001", Alerts: 2}}
	}
	root := func(incident, text string) slacktest.Message {
		return slacktest.Message{Text: text, Metadata: json.RawMessage(fmt.Sprintf(`{"event_payload":{"incident":%q,"part":"main"}}`, incident))}
	}
	firing, resolved := root("a", "Healthy · 3 alerts"), root("b", "Recovered. Measured again after the alert resolved: healthy · 2 alerts")
	for _, tt := range []struct {
		name    string
		damage  func(rows []webhook.IncidentRow) []webhook.IncidentRow
		roots   []slacktest.Message
		lost    int
		doubled int
		open    int
	}{
		{"all is well", nil, []slacktest.Message{firing, resolved}, 0, 0, 0},
		{"an incident is missing", func(r []webhook.IncidentRow) []webhook.IncidentRow { return r[1:] }, []slacktest.Message{resolved}, 3, 0, 0},
		{"alerts are missing", func(r []webhook.IncidentRow) []webhook.IncidentRow { r[0].Alerts = 1; return r }, []slacktest.Message{firing, resolved}, 2, 0, 0},
		{"two incidents", func(r []webhook.IncidentRow) []webhook.IncidentRow { return append(r, r[0]) }, []slacktest.Message{firing, resolved}, 0, 1, 0},
		{"no message", nil, []slacktest.Message{resolved}, 1, 0, 0},
		{"two messages", nil, []slacktest.Message{firing, resolved, resolved}, 0, 1, 0},
		{"nobody's message", nil, []slacktest.Message{firing, resolved, root("", "x")}, 0, 1, 0},
		{"still looking", nil, []slacktest.Message{root("a", looking+"it · 3 alerts"), resolved}, 1, 0, 0},
		{"an alert is not told", nil, []slacktest.Message{root("a", "Healthy · 2 alerts"), resolved}, 1, 0, 0},
		{"the end is not told", nil, []slacktest.Message{firing, root("b", "Healthy · 2 alerts")}, 1, 0, 0},
		{"work is left", func(r []webhook.IncidentRow) []webhook.IncidentRow { r[0].Pending = true; return r }, []slacktest.Message{firing, resolved}, 0, 0, 1},
		{"somebody is not told", func(r []webhook.IncidentRow) []webhook.IncidentRow {
			r[1].Undelivered = []webhook.DeliveryRow{{Courier: "x"}}
			return r
		}, []slacktest.Message{firing, resolved}, 0, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			kept := rows()
			if tt.damage != nil {
				kept = tt.damage(kept)
			}
			got := c.survey(kept, tt.roots)
			if got.lost != tt.lost || got.doubled != tt.doubled || got.open != tt.open {
				t.Errorf("got %+v, want %d lost, %d doubled, %d open", got, tt.lost, tt.doubled, tt.open)
			}
		})
	}
}

// TestChaosAlerts: every alert is another one, and each group has its share.
func TestChaosAlerts(t *testing.T) {
	t.Parallel()
	c := chaos{alerts: 1000, groups: 20, channels: 4}
	seen, per := map[string]bool{}, map[string]int{}
	for i := range c.alerts {
		a := c.alert(i, time.Now(), time.Time{})
		seen[a.Labels["instance"]] = true
		per[a.Labels["alertname"]+" in "+a.Labels["channel"]]++
	}
	if len(seen) != 1000 || len(per) != 20 {
		t.Errorf("got %d alerts in %d groups, want 1000 in 20, each in one channel", len(seen), len(per))
	}
	for group, n := range per {
		if n != 50 {
			t.Errorf("%s: got %d alerts, want 50", group, n)
		}
	}
}
