package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// config is the file that `serve` and `run --config` read. README.md documents
// it; cmd/diagnose/testdata/diagnose.yml shows every field.
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

func loadConfig(path string) (*config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c := &config{Listen: "127.0.0.1:9095", Playbook: defaultPlaybook, Recorder: recorderConfig{Every: 10 * time.Second, Keep: time.Hour}}
	if err := playbooks.DecodeStrict(path, data, c); err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// validate returns every fault that the types could not rule out.
func (c *config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Targets) == 0 {
		bad("targets: at least one is needed, as: - {name: registration, checker: {url: \"http://host:8080\"}}")
	}
	seen := map[string]bool{}
	for i, t := range c.Targets {
		where := fmt.Sprintf("targets[%d]", i)
		switch {
		case t.Name == "":
			bad("%s.name: is needed", where)
		case seen[t.Name]:
			bad("%s.name: %q is taken by an earlier target", where, t.Name)
		}
		seen[t.Name] = true
		if err := t.validate(); err != nil {
			bad("%s.%w", where, err)
		}
	}
	if err := validWindow(c.Window); err != nil {
		bad("%w", err)
	}
	if err := c.Recorder.validate(); err != nil {
		bad("recorder.%w", err)
	}
	for i := range c.Alertmanagers {
		if err := c.Alertmanagers[i].validate(); err != nil {
			bad("alertmanagers[%d]%w", i, err)
		}
	}
	if c.Watchdog != nil {
		if err := c.Watchdog.validate(); err != nil {
			bad("watchdog.%w", err)
		}
	}
	sinks := map[string]int{}
	takers := 0
	for i, n := range c.Notify {
		if err := n.validate(); err != nil {
			bad("notify[%d]%w", i, err)
			continue
		}
		if err := webhook.ValidCourierName(detailsOf(n.name())); err != nil {
			bad("notify[%d]: the name %q cannot be used: %w", i, n.name(), err)
		}
		if first, taken := sinks[n.name()]; taken {
			bad("notify[%d]: is called %q like notify[%d]; give it a name of its own", i, n.name(), first)
		}
		sinks[n.name()] = i
		if n.Slack != nil && n.Slack.Orders != nil {
			takers++
		}
	}
	if takers > 1 {
		bad("notify: %d sinks have orders: at most one can", takers)
	}
	for i, r := range c.Routes {
		for _, err := range r.validate(c, sinks) {
			bad("routes[%d].%w", i, err)
		}
	}
	return errors.Join(errs...)
}

// target returns the target of that name; the first without one.
func (c *config) target(name string) (targetConfig, error) {
	if name == "" {
		return c.Targets[0], nil
	}
	var names []string
	for _, t := range c.Targets {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return targetConfig{}, fmt.Errorf("unknown target %q: want one of %s", name, strings.Join(names, ", "))
}

func (t *targetConfig) validate() error {
	u, err := url.Parse(t.Checker.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("checker URL: want http://host:port, got %s", redactURL(t.Checker.URL))
	}
	if u.User != nil {
		return errors.New("checker URL: holds credentials; put a bearer token in checker.token instead")
	}
	for i, s := range t.Shards {
		if s.Name == "" || !s.DSN.given() {
			return fmt.Errorf("shards[%d]: want {name: shard0, dsn: {env: SHARD0_DSN}}", i)
		}
	}
	for i, b := range t.PgBouncers {
		if b.Name == "" || !b.DSN.given() {
			return fmt.Errorf("pgbouncers[%d]: want {name: bouncer0, dsn: {env: BOUNCER0_DSN}}, of the database pgbouncer", i)
		}
	}
	return nil
}

func (n *notifyConfig) validate() error {
	set := 0
	for _, is := range []bool{n.Slack != nil, n.SlackWebhook != nil, n.Stdout != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return errors.New(": want exactly one of slack, slack_webhook, stdout")
	case n.Slack != nil && !n.Slack.Token.given():
		return errors.New(".slack.token: is needed, as {env: SLACK_TOKEN} or {file: PATH}")
	case n.Slack != nil && n.Slack.Channel == "":
		return errors.New(".slack.channel: is needed, best as an ID (C0123456789)")
	case n.Slack != nil && n.Slack.Orders != nil && !n.Slack.Orders.SigningSecret.given():
		return errors.New(".slack.orders.signing_secret: is needed, as {env: NAME} or {file: PATH}")
	case n.Slack != nil && n.Slack.Orders != nil && len(n.Slack.Orders.Users)+len(n.Slack.Orders.Channels) == 0:
		return errors.New(".slack.orders: name the users or channels that may give orders, by their IDs")
	case n.SlackWebhook != nil && !n.SlackWebhook.URL.given():
		return errors.New(".slack_webhook.url: is needed, as {env: NAME} or {file: PATH}")
	}
	return nil
}

// redactURL returns raw without what may be a secret in it.
func redactURL(raw string) string {
	if raw == "" {
		return "none"
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "something else"
	}
	u.RawQuery = ""
	return fmt.Sprintf("%q", u.Redacted())
}

// resolve follows the target's references to secrets.
func (t *targetConfig) resolve() error {
	var errs []error
	try := func(s *secret, format string, args ...any) {
		if err := s.resolve(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
		}
	}
	try(&t.Checker.Token, "target %s: checker.token", t.Name)
	try(&t.Redis.Password, "target %s: redis.password", t.Name)
	for i := range t.Shards {
		try(&t.Shards[i].DSN, "target %s: shards[%d].dsn", t.Name, i)
	}
	for i := range t.PgBouncers {
		try(&t.PgBouncers[i].DSN, "target %s: pgbouncers[%d].dsn", t.Name, i)
	}
	return errors.Join(errs...)
}

// resolve follows the sink's references to secrets.
func (n *notifyConfig) resolve() error {
	switch {
	case n.Slack != nil:
		if err := n.Slack.Token.resolve(); err != nil {
			return fmt.Errorf("slack.token: %w", err)
		}
		if n.Slack.Orders != nil {
			if err := n.Slack.Orders.SigningSecret.resolve(); err != nil {
				return fmt.Errorf("slack.orders.signing_secret: %w", err)
			}
		}
	case n.SlackWebhook != nil:
		if err := n.SlackWebhook.URL.resolve(); err != nil {
			return fmt.Errorf("slack_webhook.url: %w", err)
		}
	}
	return nil
}
