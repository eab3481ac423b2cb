package main

import (
	"fmt"
	"strings"

	"github.com/regpath/diagnose/probes/source"
	"github.com/regpath/diagnose/webhook"
)

// complain notes that something is wrong at a path of the configuration, such as
// "targets[0].checker.url", or with its absence. Where the right words are known,
// the nearest to what stands there is suggested.
type complain func(path, problem, expected string, known ...string)

// under is complain for what is below a path.
func (bad complain) under(path string) complain {
	return func(sub, problem, expected string, known ...string) {
		if sub != "" {
			sub = "." + sub
		}
		bad(path+sub, problem, expected, known...)
	}
}

// of complains of an error, if there is one.
func (bad complain) of(path string, err error, expected string) {
	if err != nil {
		bad(path, err.Error(), expected)
	}
}

// at is the path of an element of a list.
func at(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// check complains of every fault that can be seen in the file alone.
func (c *config) check(bad complain) {
	bad.of("listen", source.CheckListen(c.Listen), "host:port, such as 127.0.0.1:9095")
	judge(c.secrets(), bad)
	if len(c.Targets) == 0 {
		bad("targets", "there is none", `at least one, as - {name: registration, checker: {url: "http://host:8080"}}`)
	}
	for i := range c.Targets {
		c.Targets[i].check(bad.under(at("targets", i)))
	}
	distinct(bad, "targets", c.targetNames())
	bad.of("window", source.CheckWindow(c.Window), "")
	c.Recorder.check(bad.under("recorder"))
	for i := range c.Alertmanagers {
		c.Alertmanagers[i].check(bad.under(at("alertmanagers", i)))
	}
	if c.Watchdog != nil {
		c.Watchdog.check(bad.under("watchdog"))
	}
	c.checkSinks(bad)
	for i := range c.Routes {
		c.Routes[i].check(c, bad.under(at("routes", i)))
	}
}

// distinct complains of names in a list that are not there or there twice.
func distinct(bad complain, list string, names []string) {
	first := map[string]int{}
	for i, name := range names {
		earlier, taken := first[name]
		switch {
		case name == "":
			bad(at(list, i)+".name", "is needed", "a name of its own")
		case taken:
			bad(at(list, i)+".name", fmt.Sprintf("%q is taken by %s", name, at(list, earlier)), "a name of its own")
		default:
			first[name] = i
		}
	}
}

func (t *targetConfig) check(bad complain) {
	bad.of("checker.url", source.CheckURL(t.Checker.URL), "http://host:port; a bearer token goes into checker.token")
	if t.Redis.Address != "" {
		bad.of("redis.address", source.CheckAddress(t.Redis.Address), "host:port; username, password and tls have fields of their own")
	} else if t.Redis != (redisConfig{}) {
		bad("redis.address", "is needed", "host:port")
	}
	if t.Redis.Username != "" && !t.Redis.Password.given() {
		bad("redis.password", "is needed with a username, which is not sent alone", "")
	}
	for _, databases := range []struct {
		list string
		all  []shardConfig
		want string
	}{
		{"shards", t.Shards, "{env: SHARD0_DSN} or {file: PATH}"},
		{"pgbouncers", t.PgBouncers, "{env: BOUNCER0_DSN} or {file: PATH}, of the database pgbouncer"},
	} {
		names := make([]string, len(databases.all))
		for i, d := range databases.all {
			names[i] = d.Name
			if !d.DSN.given() {
				bad(at(databases.list, i)+".dsn", "is needed", databases.want)
			}
		}
		distinct(bad, databases.list, names)
	}
}

func (r recorderConfig) check(bad complain) {
	switch {
	case r.Every == 0:
	case r.Every < minEvery:
		bad("every", fmt.Sprintf("%v is less than %v", r.Every, minEvery), "more, or 0s, which switches the recorder off")
	case r.Keep < r.Every || r.Keep/r.Every > maxSamples:
		bad("keep", fmt.Sprintf("%v is not between one and %d times %v", r.Keep, maxSamples, r.Every), "")
	}
}

func (a *alertmanagerConfig) check(bad complain) {
	bad.of("url", source.CheckURL(a.URL), "http://host:9093; a bearer token goes into token")
	if a.Receiver == "" {
		bad("receiver", "is needed", "the name of the receiver there that posts to this agent")
	}
}

func (w *watchdogConfig) check(bad complain) {
	checkMatchers(bad, w.Matchers, `'alertname="Watchdog"'`)
	if w.Within < minWithin {
		bad("within", fmt.Sprintf("%v is too short", w.Within), fmt.Sprintf("at least %v, and more than Alertmanager's repeat_interval for it", minWithin))
	}
}

// checkMatchers complains of matchers; one is needed.
func checkMatchers(bad complain, texts []string, example string) {
	if len(texts) == 0 {
		bad("matchers", "at least one is needed", example)
	}
	for i, text := range texts {
		_, err := parseMatcher(text)
		bad.of(at("matchers", i), err, `a matcher as in Alertmanager, such as 'team="growth"' or 'severity=~"P0|P1"'`)
	}
}

func (r *routeConfig) check(c *config, bad complain) {
	checkMatchers(bad, r.Matchers, `'team="growth"'; without a route alerts go to the first target`)
	unknown := func(path, what, name string, known []string) {
		if name == "" || len(known) == 0 {
			return
		}
		for _, k := range known {
			if k == "" || k == name {
				return // it is there or, since one has lost its name, may be
			}
		}
		bad(path, fmt.Sprintf("unknown %s %q", what, name), "one of "+strings.Join(known, ", "), known...)
	}
	unknown("target", "target", r.Target, c.targetNames())
	for i, name := range r.Notify {
		if len(c.Notify) == 0 {
			bad(at("notify", i), fmt.Sprintf("unknown sink %q", name), "a sink of those under notify, of which there is none")
		}
		unknown(at("notify", i), "sink", name, c.sinkNames())
	}
}

// checkSinks complains of sinks, each for itself and beside the others.
func (c *config) checkSinks(bad complain) {
	first := map[string]int{}
	orders := -1
	for i := range c.Notify {
		n, here := &c.Notify[i], bad.under(at("notify", i))
		kind := n.check(here)
		if kind == "" {
			continue
		}
		named := kind + ".name"
		if kind == "stdout" {
			named = kind
		}
		here.of(named, webhook.ValidCourierName(detailsOf(n.name())), "")
		if earlier, taken := first[n.name()]; taken {
			here(named, fmt.Sprintf("is called %q like %s", n.name(), at("notify", earlier)), "a name of its own")
		} else {
			first[n.name()] = i
		}
		switch {
		case n.Slack == nil || n.Slack.Orders == nil:
		case orders >= 0:
			here("slack.orders", at("notify", orders)+" takes orders already", "orders at one sink")
		default:
			orders = i
		}
	}
}

// check returns the kind of the sink as well, or nothing if it has not exactly one.
func (n *notifyConfig) check(bad complain) (kind string) {
	var kinds []string
	if n.Slack != nil {
		kinds = append(kinds, "slack")
		n.Slack.check(bad.under("slack"))
	}
	if n.SlackWebhook != nil {
		kinds = append(kinds, "slack_webhook")
		if !n.SlackWebhook.URL.given() {
			bad("slack_webhook.url", "is needed", "{env: NAME} or {file: PATH}")
		}
	}
	if n.Stdout != nil {
		kinds = append(kinds, "stdout")
	}
	if len(kinds) != 1 {
		bad("", fmt.Sprintf("has %d sinks", len(kinds)), "exactly one of slack, slack_webhook, stdout")
		return ""
	}
	return kinds[0]
}

func (s *slackConfig) check(bad complain) {
	if !s.Token.given() {
		bad("token", "is needed", "{env: SLACK_TOKEN} or {file: PATH}")
	}
	if s.Channel == "" {
		bad("channel", "is needed", "a channel, best by its ID (C0123456789)")
	}
	if s.APIURL != "" {
		bad.of("api_url", source.CheckURL(s.APIURL), "http://host:port/path/, or nothing for Slack itself")
	}
	if s.Orders == nil {
		return
	}
	if !s.Orders.SigningSecret.given() {
		bad("orders.signing_secret", "is needed", "{env: NAME} or {file: PATH}")
	}
	if len(s.Orders.Users)+len(s.Orders.Channels) == 0 {
		bad("orders", "nobody may give orders", "users or channels, by their IDs")
	}
}
