package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/playbooks"
)

// config is the file that `serve` and `run --config` read. README.md documents
// it.
type config struct {
	// Listen is the address of the webhook and the agent's own metrics.
	Listen string `yaml:"listen"`
	// Store is the file of the durable inbox or, for several agents that share it,
	// a postgres:// URL.
	Store   secret        `yaml:"store"`
	Webhook webhookConfig `yaml:"webhook"`
	// Alertmanagers are all that post to the agent; none need be given.
	Alertmanagers []alertmanagerConfig `yaml:"alertmanagers"`
	// Watchdog is about an alert that always fires; there is none when nil.
	Watchdog *watchdogConfig `yaml:"watchdog"`
	// Targets are the services to diagnose; the first is the default.
	Targets []targetConfig `yaml:"targets"`
	// Playbook is the name of the playbook that alerts run.
	Playbook string `yaml:"playbook"`
	// Playbooks are files of further playbooks; one with the name of a built-in
	// one replaces it.
	Playbooks []string `yaml:"playbooks"`
	// Urgent are the severities of alerts that never wait for others; P0, critical
	// and page when not given.
	Urgent []string `yaml:"urgent"`
	// Routes say what other alerts run; the first that matches counts.
	Routes []routeConfig `yaml:"routes"`
	// Window is the time between the two samples of a probe; 0 for what the
	// playbook says.
	Window   time.Duration  `yaml:"window"`
	Recorder recorderConfig `yaml:"recorder"`
	Notify   []notifyConfig `yaml:"notify"`
}

// recorderConfig is about the flight recorder of `serve`.
type recorderConfig struct {
	// Every is the time between two samples; 0 switches the recorder off.
	Every time.Duration `yaml:"every"`
	// Keep is how long samples are remembered.
	Keep time.Duration `yaml:"keep"`
}

type webhookConfig struct {
	// Tokens are the bearer tokens taken; several allow rotation.
	Tokens []secret `yaml:"tokens"`
}

// targetConfig says how to reach one service. Everything but the checker's URL
// is optional: what cannot be reached is a gap in the report.
type targetConfig struct {
	Name    string        `yaml:"name"`
	Checker checkerConfig `yaml:"checker"`
	Redis   redisConfig   `yaml:"redis"`
	Shards  []shardConfig `yaml:"shards"`
	// PgBouncers are the admin consoles of the poolers before the shards.
	PgBouncers []shardConfig `yaml:"pgbouncers"`
}

type checkerConfig struct {
	URL   string `yaml:"url"`
	Token secret `yaml:"token"`
}

type redisConfig struct {
	Address  string `yaml:"address"`
	Username string `yaml:"username"`
	Password secret `yaml:"password"`
	TLS      bool   `yaml:"tls"`
}

type shardConfig struct {
	Name string `yaml:"name"`
	DSN  secret `yaml:"dsn"`
}

// notifyConfig is one sink: exactly one of its fields is set.
type notifyConfig struct {
	Slack        *slackConfig        `yaml:"slack"`
	SlackWebhook *slackWebhookConfig `yaml:"slack_webhook"`
	Stdout       *struct{}           `yaml:"stdout"`
}

type slackConfig struct {
	// Name tells sinks of one kind apart; "slack" when empty.
	Name    string `yaml:"name"`
	Token   secret `yaml:"token"`
	Channel string `yaml:"channel"`
	// Fallback is the channel for what Channel does not take; none when empty.
	Fallback string `yaml:"fallback"`
	// Orders lets people order runs by chat, and mark reports; none when nil.
	Orders *ordersConfig `yaml:"orders"`
	// APIURL is for Slack-compatible servers; empty means Slack.
	APIURL string `yaml:"api_url"`
}

// ordersConfig says who may give orders by chat: the users, and everybody in the
// channels. Both are IDs.
type ordersConfig struct {
	// SigningSecret is the Slack app's.
	SigningSecret secret   `yaml:"signing_secret"`
	Users         []string `yaml:"users"`
	Channels      []string `yaml:"channels"`
}

type slackWebhookConfig struct {
	// Name tells sinks of one kind apart; "slack-webhook" when empty.
	Name string `yaml:"name"`
	URL  secret `yaml:"url"`
}

// name is what the sink is remembered by over restarts.
func (n *notifyConfig) name() string {
	switch {
	case n.Slack != nil:
		return cmp.Or(n.Slack.Name, "slack")
	case n.SlackWebhook != nil:
		return cmp.Or(n.SlackWebhook.Name, "slack-webhook")
	}
	return "stdout"
}

const defaultPlaybook = "registration-path"

// check is a look into a configuration beyond its own file: it complains of what is
// wrong, and returns what is wrong elsewhere.
type check func(c *config, bad complain) error

// loadConfig reads a configuration. Its error holds every fault that it or one of the
// checks has found.
func loadConfig(path string, checks ...check) (*config, error) {
	data, err := shell.ReadText(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c := &config{Listen: "127.0.0.1:9095", Playbook: defaultPlaybook, Recorder: recorderConfig{Every: 10 * time.Second, Keep: time.Hour}}
	reading := playbooks.ReadStrict(path, data, c)
	c.check(reading.Fault)
	var elsewhere error
	for _, check := range checks {
		elsewhere = errors.Join(elsewhere, check(c, reading.Fault))
	}
	if err := errors.Join(reading.Err(), elsewhere); err != nil {
		return nil, err
	}
	return c, nil
}

// target returns the index of the target of that name; the first without one.
func (c *config) target(name string) (int, error) {
	names := c.targetNames()
	if name == "" {
		return 0, nil
	}
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("unknown target %q: %s", name, shell.OneOf(name, names))
}

func (c *config) targetNames() []string {
	names := make([]string, len(c.Targets))
	for i, t := range c.Targets {
		names[i] = t.Name
	}
	return names
}

// sinkNames has nothing in the place of a sink of no kind.
func (c *config) sinkNames() []string {
	names := make([]string, len(c.Notify))
	for i, n := range c.Notify {
		if n != (notifyConfig{}) {
			names[i] = n.name()
		}
	}
	return names
}
