package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes/source"
	"github.com/regpath/diagnose/webhook"
)

// secretAt is a secret of the configuration, at its path.
type secretAt struct {
	*secret
	path string
	// wrong says what is wrong with its text, without quoting it; nil if nothing can
	// be. expected is what to say then.
	wrong    func(string) error
	expected string
}

// secrets lists all secrets that are given.
func (c *config) secrets() []secretAt {
	all := []secretAt{{&c.Store, "store", checkStore, "the path of a file, or postgres://user:password@host:port/database"}}
	for i := range c.Webhook.Tokens {
		all = append(all, secretAt{secret: &c.Webhook.Tokens[i], path: at("webhook.tokens", i)})
	}
	for i := range c.Alertmanagers {
		all = append(all, secretAt{secret: &c.Alertmanagers[i].Token, path: at("alertmanagers", i) + ".token"})
	}
	for i := range c.Targets {
		all = append(all, below(at("targets", i), c.Targets[i].secrets())...)
	}
	return slices.Concat(all, c.sinkSecrets())
}

// checkStore says what is wrong with the store, without quoting it: a pipe would be
// waited for.
func checkStore(store string) error {
	if err := webhook.CheckStore(store); err != nil {
		return err
	}
	if info, err := os.Stat(store); err == nil && !info.Mode().IsRegular() {
		return errors.New("is a folder, a device or the like")
	}
	return nil
}

// sinkSecrets lists those of the sinks.
func (c *config) sinkSecrets() (all []secretAt) {
	for i := range c.Notify {
		all = append(all, below(at("notify", i), c.Notify[i].secrets())...)
	}
	return all
}

// secrets lists those of a target.
func (t *targetConfig) secrets() []secretAt {
	all := []secretAt{
		{secret: &t.Checker.Token, path: "checker.token"},
		{secret: &t.Redis.Password, path: "redis.password"},
	}
	const dsn = "postgres://user:password@host:port/database or host=… port=… user=… password=… dbname=…"
	for i := range t.Shards {
		all = append(all, secretAt{&t.Shards[i].DSN, at("shards", i) + ".dsn", source.CheckDSN, dsn})
	}
	for i := range t.PgBouncers {
		all = append(all, secretAt{&t.PgBouncers[i].DSN, at("pgbouncers", i) + ".dsn", source.CheckDSN, dsn})
	}
	return all
}

// secrets lists those of a sink.
func (n *notifyConfig) secrets() (all []secretAt) {
	if n.Slack != nil {
		all = append(all, secretAt{secret: &n.Slack.Token, path: "slack.token"})
		if n.Slack.Orders != nil {
			all = append(all, secretAt{secret: &n.Slack.Orders.SigningSecret, path: "slack.orders.signing_secret"})
		}
	}
	if n.SlackWebhook != nil {
		all = append(all, secretAt{&n.SlackWebhook.URL, "slack_webhook.url", source.CheckEndpoint, "https://hooks.slack.com/services/…"})
	}
	return all
}

// below puts secrets below a path.
func below(path string, secrets []secretAt) []secretAt {
	for i := range secrets {
		secrets[i].path = path + "." + secrets[i].path
	}
	return secrets
}

// judge complains of what is wrong with the secrets whose text is known by now.
func judge(secrets []secretAt, bad complain) {
	for _, s := range secrets {
		if text := s.Reveal(); text != "" && s.wrong != nil {
			bad.of(s.path, s.wrong(text), s.expected)
		}
	}
}

// follow resolves secrets and judges them; it complains of what it cannot resolve.
func follow(secrets []secretAt, bad complain) {
	for _, s := range secrets {
		bad.of(s.path, s.resolve(), "")
	}
	judge(secrets, bad)
}

// resolveAll resolves secrets, or returns all that went wrong.
func resolveAll(secrets []secretAt) error {
	var errs []error
	follow(secrets, func(path, problem, expected string, _ ...string) {
		errs = append(errs, errors.New(asText(path, problem, expected)))
	})
	return errors.Join(errs...)
}

// asText is a complaint without a place.
func asText(path, problem, expected string) string {
	return path + ": " + problem + strings.TrimSuffix("; expected "+expected, "; expected ")
}

// checkPlaybooks complains of playbooks that are not there or that are called for and
// unknown; those in more files are known too. Its error is what is wrong in the files.
func (c *config) checkPlaybooks(bad complain, more ...string) error {
	files, err := playbooks.Builtin()
	if err != nil {
		return err
	}
	builtin := len(files)
	for i, path := range slices.Concat(c.Playbooks, more) {
		f, err := readPlaybook(path)
		switch {
		case err == nil:
			files = append(files, f)
		case i < len(c.Playbooks):
			bad.of(at("playbooks", i), err, "the file of a playbook")
		default:
			return fmt.Errorf("read playbook: %w", err)
		}
	}
	_, err = playbooks.Load((&target{}).catalog(), files[builtin:]...)
	if err != nil || len(files) < builtin+len(c.Playbooks)+len(more) {
		return err // and what else there is called is not known
	}
	byName := map[string]bool{}
	for _, f := range files {
		byName[playbooks.NameOf(f)] = true
	}
	names := slices.Sorted(maps.Keys(byName))
	unknown := func(path, name string) {
		if !byName[name] {
			bad(path, fmt.Sprintf("unknown playbook %q", name), "one of "+strings.Join(names, ", "), names...)
		}
	}
	unknown("playbook", c.Playbook)
	for i, r := range c.Routes {
		unknown(at("routes", i)+".playbook", cmp.Or(r.Playbook, c.Playbook))
	}
	return nil
}
