package main

import (
	"context"
	"strings"
	"testing"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
)

// always is the routing with one playbook for everything.
func always(p *playbooks.Playbook) func() *routing {
	r := &routing{routes: []route{{playbook: p}}}
	return func() *routing { return r }
}

const routedConfig = `
store: x.db
webhook: {tokens: [` + canary + `]}
urgent: [Sev-1]
targets:
  - {name: a, checker: {url: "http://127.0.0.1:1"}}
  - {name: b, checker: {url: "http://127.0.0.1:2"}}
notify: [{stdout: {}}, {slack_webhook: {name: night, url: "https://h/x"}}]
routes:
  - {matchers: ['team="growth"', 'severity=~"sev1|sev2"'], target: b, notify: [night]}
  - {matchers: ['team="growth"'], notify: [stdout]}
  - {matchers: ['owner=""', 'team!~"growth|core"', '{"utf8.name"="x"}'], target: b}
`

// TestRouting: the first route that takes any of the alerts counts, with all its
// matchers on one alert.
func TestRouting(t *testing.T) {
	t.Parallel()
	path := write(t, "diagnose.yml", strings.Replace(routedConfig, `'{"utf8.name"="x"}'`, `'"utf8.name"="x"'`, 1))
	c, err := loadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRouting(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{routing: func() *routing { return r }}
	for _, n := range c.Notify {
		l.sinks = append(l.sinks, sink{name: n.name()})
	}
	type labels = map[string]string
	for _, tt := range []struct {
		name   string
		alerts []labels
		target string
		tells  string
	}{
		{"no alerts", nil, "a", "stdout night"},
		{"nothing matches", []labels{{"team": "core"}}, "a", "stdout night"},
		{"all matchers", []labels{{"team": "growth", "severity": "sev1"}}, "b", "night"},
		{"a pattern is anchored", []labels{{"team": "growth", "severity": "sev12"}}, "a", "stdout"},
		{"on one alert", []labels{{"team": "growth"}, {"team": "core", "severity": "sev1"}}, "a", "stdout"},
		{"any alert moves it up", []labels{{"team": "growth"}, {"team": "growth", "severity": "sev2"}}, "b", "night"},
		{"a missing label is empty", []labels{{"utf8.name": "x"}}, "b", "stdout night"},
		{"a label that is there is not", []labels{{"utf8.name": "x", "owner": "me"}}, "a", "stdout night"},
	} {
		var in playbooks.Incident
		for _, set := range tt.alerts {
			in.Alerts = append(in.Alerts, playbooks.Alert{Labels: set})
		}
		got, tells := r.of(in), l.audience(in.Alerts)
		if got.target != tt.target || strings.Join(tells, " ") != tt.tells || got.playbook.Name != defaultPlaybook {
			t.Errorf("%s: got %s on %s, told to %v, want target %s, told to %s", tt.name, got.playbook.Name, got.target, tells, tt.target, tt.tells)
		}
	}
	if !r.urgent("sev1") || r.urgent("P0") {
		t.Error("urgent: want sev1 and not P0, as configured")
	}
}

// TestRoutingFaults: all that is wrong with routes is said at once.
func TestRoutingFaults(t *testing.T) {
	t.Parallel()
	path := write(t, "diagnose.yml", `
targets: [{name: a, checker: {url: "http://127.0.0.1:1"}}]
notify: [{stdout: {}}]
routes:
  - {target: a}
  - {matchers: ['team~"x"'], target: c, notify: [slack]}
  - {matchers: ['team=~"("']}
`)
	_, err := loadConfig(path)
	if err == nil {
		t.Fatal("got no error")
	}
	contains(t, "error", err.Error(), "routes[0].matchers: at least one is needed", "routes[1].matchers[0]: ",
		`routes[1].target: unknown target "c"; expected one of a`, `routes[1].notify[0]: unknown sink "slack"; expected one of stdout`,
		"routes[2].matchers[0]: ")
	path = write(t, "other.yml", `
targets: [{name: a, checker: {url: "http://127.0.0.1:1"}}]
routes: [{matchers: ['a="b"'], playbook: nosuch}]
`)
	c, err := loadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newRouting(c, nil); err == nil {
		t.Error("got no error for a playbook that does not exist")
	} else {
		contains(t, "error", err.Error(), `routes[0].playbook: unknown playbook "nosuch"`)
	}
}

// TestRouteMoves: a sink that is called though the route leads elsewhere by now passes the
// incident on, unless it has said something: then it goes on to, and so does the report.
func TestRouteMoves(t *testing.T) {
	t.Parallel()
	told := map[string]int{}
	named := func(name string) sink {
		return sink{name, notifierFunc(func(context.Context, notify.Notice) (notify.Receipt, error) {
			told[name]++
			return notify.Receipt{Sink: name, Message: "1"}, nil
		})}
	}
	night, day := named("night"), named("day")
	to := "night"
	p := &playbooks.Playbook{}
	l := &line{sinks: []sink{night, day}, routing: func() *routing { return &routing{routes: []route{{playbook: p, sinks: []string{to}}}} }}
	in, memo := playbooks.Incident{ID: "a", Episode: 1}, &memory{}
	carry := func(s sink, sent string, nights, days int) {
		t.Helper()
		memo.sent = nil
		if err := (&carrier{line: l, sink: s}).Carry(t.Context(), in, memo); err != nil {
			t.Fatalf("Carry: %v", err)
		}
		if got := strings.Join(memo.sent, " "); got != sent || told["night"] != nights || told["day"] != days {
			t.Errorf("sent to %q, told %v, want sent to %q, %d of night and %d of day", got, told, sent, nights, days)
		}
	}
	carry(day, "night", 0, 0) // it was called under another configuration
	carry(night, "", 1, 0)
	to = "day"
	memo.sent = nil
	if err := l.tell(t.Context(), in, memo, &story{Episode: 1, Report: &playbooks.Report{ID: "r"}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(memo.sent, " "); got != "day night" {
		t.Errorf("the report is sent to %q, want day, and night, which began to tell", got)
	}
	carry(night, "", 2, 0)
	carry(day, "", 2, 1)
}
