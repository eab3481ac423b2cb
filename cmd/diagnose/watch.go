package main

import (
	"fmt"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// alertmanagerConfig is an Alertmanager that posts to the agent, which asks it
// for what got lost.
type alertmanagerConfig struct {
	// URL is that of its user interface.
	URL   string `yaml:"url"`
	Token secret `yaml:"token"`
	// Receiver is the receiver in its configuration that posts to the agent.
	Receiver string `yaml:"receiver"`
}

// watchdogConfig is about an alert that always fires, so that its absence tells
// of a broken pipe.
type watchdogConfig struct {
	// Matchers are written as those of a route.
	Matchers []string `yaml:"matchers"`
	// Within is how long it may stay away.
	Within time.Duration `yaml:"within"`
}

// minWithin is shorter than any sensible repeat_interval.
const minWithin = time.Minute

// senders are the Alertmanagers as the inbox wants them.
func (c *config) senders() ([]webhook.Sender, error) {
	var all []webhook.Sender
	for i := range c.Alertmanagers {
		a := &c.Alertmanagers[i]
		if err := a.Token.resolve(); err != nil {
			return nil, fmt.Errorf("%s.token: %w", at("alertmanagers", i), err)
		}
		all = append(all, webhook.Sender{URL: a.URL, Token: a.Token.Reveal(), Receiver: a.Receiver})
	}
	return all, nil
}

// watchdog is the configured one, nil if there is none.
func (c *config) watchdog() (*webhook.Watchdog, error) {
	if c.Watchdog == nil {
		return nil, nil
	}
	matchers, err := parseMatchers(c.Watchdog.Matchers)
	if err != nil {
		return nil, fmt.Errorf("watchdog.matchers%w", err)
	}
	return &webhook.Watchdog{Matches: func(l map[string]string) bool { return matchAll(matchers, l) }, Within: c.Watchdog.Within}, nil
}

// matchAll reports whether all matchers match the labels.
func matchAll(matchers labels.Matchers, l map[string]string) bool {
	for _, m := range matchers {
		if !m.Matches(l[m.Name]) {
			return false
		}
	}
	return true
}

// pipeNotice says that alerts may not arrive, or do so again.
func pipeNotice(in playbooks.Incident) notify.Notice {
	n := notify.Notice{Incident: in, Phase: notify.Reported}
	n.Incident.Title = "The alert pipe is broken"
	for _, a := range in.Alerts {
		n.Note = a.Annotations["summary"]
	}
	n.Note += " Others may not reach this agent either: look at Prometheus, at Alertmanager and its route to this agent, and at the network between them."
	if !in.ResolvedAt.IsZero() {
		n.Phase = notify.Resolved
		n.Incident.Title = "the alert pipe works again"
		n.Note = "The alert that always fires has come."
	}
	return n
}
