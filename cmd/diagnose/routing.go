package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// routeConfig says what is run for the alerts that match, and who hears of it.
// What it leaves out is as for all other alerts.
type routeConfig struct {
	// Matchers are written as in Alertmanager's configuration: team="growth",
	// severity=~"P0|critical". All of them must match labels of one alert.
	Matchers []string `yaml:"matchers"`
	Target   string   `yaml:"target"`
	Playbook string   `yaml:"playbook"`
	// Notify names sinks; all when empty.
	Notify []string `yaml:"notify"`
}

// routing is what one configuration decides about alerts. It never changes: a
// reload makes another one.
type routing struct {
	// routes are tried in order; the last one takes everything.
	routes  []route
	targets map[string]*target
	// playbooks are bound to a target: by its name, then by theirs.
	playbooks map[string]map[string]*playbooks.Playbook
	urgent    func(severity string) bool
	tokens    []string
}

// route is a routeConfig, ready for use.
type route struct {
	matchers labels.Matchers
	// playbook is bound to the target.
	playbook *playbooks.Playbook
	target   string
	// sinks are those that hear of it; none for all.
	sinks []string
}

// newRouting makes what the configuration says. It takes over from old, which
// may be nil, the targets that have not changed, with their connections.
func newRouting(c *config, old *routing) (*routing, error) {
	r := &routing{targets: map[string]*target{}, urgent: webhook.Severities("P0", "critical", "page")}
	if c.Urgent != nil {
		r.urgent = webhook.Severities(c.Urgent...)
	}
	for i, token := range c.Webhook.Tokens {
		if err := token.resolve(); err != nil {
			return nil, fmt.Errorf("webhook.tokens[%d]: %w", i, err)
		}
		r.tokens = append(r.tokens, token.Reveal())
	}
	byTarget := map[string]map[string]*playbooks.Playbook{}
	r.playbooks = byTarget
	for _, tc := range c.Targets {
		t, err := newTarget(tc)
		if err != nil {
			return nil, err
		}
		if old != nil && t.sameAs(old.targets[tc.Name]) {
			t = old.targets[tc.Name]
		}
		r.targets[tc.Name] = t
		if byTarget[tc.Name], err = loadPlaybooks(t.catalog(), c.Playbooks); err != nil {
			return nil, err
		}
	}
	for i, rc := range append(slices.Clone(c.Routes), routeConfig{}) {
		where := fmt.Sprintf("routes[%d].", i)
		if i == len(c.Routes) {
			where = "" // the configuration's own defaults
		}
		matchers, err := parseMatchers(rc.Matchers)
		if err != nil {
			return nil, fmt.Errorf("%smatchers%w", where, err)
		}
		name := cmp.Or(rc.Target, c.Targets[0].Name)
		p, err := pick(byTarget[name], cmp.Or(rc.Playbook, c.Playbook))
		if err != nil {
			return nil, fmt.Errorf("%splaybook: %w", where, err)
		}
		r.routes = append(r.routes, route{matchers: matchers, playbook: p, target: name, sinks: rc.Notify})
	}
	return r, nil
}

// standard is the route of what no other takes.
func (r *routing) standard() *route { return &r.routes[len(r.routes)-1] }

// of returns the route of an incident: the first that any of its alerts takes.
// Alerts join an incident and do not leave it, so it can only move up.
func (r *routing) of(in playbooks.Incident) *route {
	last := len(r.routes) - 1
	for i := range r.routes[:last] {
		if r.routes[i].takes(in.Alerts) {
			return &r.routes[i]
		}
	}
	return &r.routes[last]
}

// takes reports whether all matchers match one of the alerts.
func (r *route) takes(alerts []playbooks.Alert) bool {
	return slices.ContainsFunc(alerts, func(a playbooks.Alert) bool { return matchAll(r.matchers, a.Labels) })
}

// tells reports whether the sink of that name hears of it.
func (r *route) tells(sink string) bool {
	return len(r.sinks) == 0 || slices.Contains(r.sinks, sink)
}
