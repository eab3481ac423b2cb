package main

import (
	"errors"
	"fmt"
	"net/url"
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

func (a *alertmanagerConfig) validate() error {
	u, err := url.Parse(a.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf(".url: want http://host:9093, got %s", redactURL(a.URL))
	case u.User != nil:
		return errors.New(".url: holds credentials; put a bearer token in token instead")
	case a.Receiver == "":
		return errors.New(".receiver: is needed, the name of the receiver there that posts to this agent")
	}
	return nil
}

func (w *watchdogConfig) validate() error {
	if len(w.Matchers) == 0 {
		return errors.New(`matchers: at least one is needed, as 'alertname="Watchdog"'`)
	}
	if _, err := parseMatchers(w.Matchers); err != nil {
		return err
	}
	if w.Within < minWithin {
		return fmt.Errorf("within: want at least %s, and more than Alertmanager's repeat_interval for it", minWithin)
	}
	return nil
}

// senders are the Alertmanagers as the inbox wants them.
func (c *config) senders() ([]webhook.Sender, error) {
	var all []webhook.Sender
	for i := range c.Alertmanagers {
		a := &c.Alertmanagers[i]
		if err := a.Token.resolve(); err != nil {
			return nil, fmt.Errorf("alertmanagers[%d].token: %w", i, err)
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
		return nil, fmt.Errorf("watchdog.%w", err)
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
