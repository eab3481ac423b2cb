package main

import (
	"fmt"
	"strings"
	"testing"
)

// canary is a secret that must not be seen anywhere.
const canary = "s3cr3t-canary"

func TestConfigFaultsAllAtOnce(t *testing.T) {
	t.Parallel()
	path := write(t, "diagnose.yml", `listen: 127.0.0.1:0
stroe: x.db
webhook:
  tokens: `+canary+`
targets:
  - name: registration
    checker: {ulr: "http://127.0.0.1:8080"}
    redis: {address: 127.0.0.1:6379, tls: `+canary+`}
    shards:
      - {name: shard0, dsn: {evn: `+canary+`}}
`)
	_, err := loadConfig(path)
	if err == nil {
		t.Fatal("got no error")
	}
	got := strings.ReplaceAll(err.Error(), path, "diagnose.yml")
	contains(t, "error", got,
		`diagnose.yml:2:1: unknown field "stroe"`, `did you mean "store"?`,
		"diagnose.yml:4:11: webhook.tokens: wrong type: text; expected a list",
		`diagnose.yml:7:15: targets[0].checker: unknown field "ulr"`, `did you mean "url"?`,
		"diagnose.yml:8:43: targets[0].redis.tls: wrong type: text; expected true or false",
		`diagnose.yml:10:29: targets[0].shards[0].dsn: unknown field: want file or env`,
	)
	if strings.Contains(got, canary) {
		t.Errorf("the error holds a secret:\n%s", got)
	}
}

func TestConfigValidation(t *testing.T) {
	t.Parallel()
	f := func(yaml string, want ...string) {
		t.Helper()
		_, err := loadConfig(write(t, "diagnose.yml", yaml))
		if err == nil {
			t.Errorf("got no error, want %q", want)
			return
		}
		contains(t, "error", err.Error(), want...)
		if strings.Contains(err.Error(), canary) {
			t.Errorf("the error holds a secret: %v", err)
		}
	}
	const target = "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}}]\n"
	f("{}", "targets: at least one is needed")
	f("", "file is empty")
	f("targets: [{name: a, checker: {url: \"ftp://u:"+canary+"@h\"}}]", "targets[0].checker URL: want http://host:port")
	f("targets: [{name: a, checker: {url: \"http://u:"+canary+"@h\"}}]", "holds credentials")
	f("targets: [{checker: {url: \"http://h\"}}]", "targets[0].name: is needed")
	f(target+"targets: []", `field "targets" is given twice`)
	f("targets: [{name: a, checker: {url: \"http://h\"}}, {name: a, checker: {url: \"http://h\"}}]", `"a" is taken`)
	f("targets: [{name: a, checker: {url: \"http://h\"}, shards: [{name: s}]}]", "shards[0]: want {name: shard0, dsn:")
	f(target+"window: 40s", "window: 40s is not between 500ms and 30s")
	f(target+"recorder: {every: 10ms}", "recorder.every: 10ms is less than 1s")
	f(target+"recorder: {every: 1m, keep: 1s}", "recorder.keep: 1s is not between one and 3600 times 1m0s")
	f(target+"alertmanagers: [{url: \"http://u:"+canary+"@h\", receiver: r}]", "alertmanagers[0].url: holds credentials")
	f(target+"alertmanagers: [{url: h:9093, receiver: r}]", "alertmanagers[0].url: want http://host:9093")
	f(target+"alertmanagers: [{url: \"http://h\"}]", "alertmanagers[0].receiver: is needed")
	f(target+"watchdog: {within: 5m}", "watchdog.matchers: at least one is needed")
	f(target+"watchdog: {matchers: ['alertname=']}", "watchdog.")
	f(target+"watchdog: {matchers: ['alertname=\"Watchdog\"'], within: 10s}", "watchdog.within: want at least 1m0s")
	f(target+"notify: [{}]", "notify[0]: want exactly one of slack, slack_webhook, stdout")
	f(target+"notify: [{slack: {channel: C1}}]", "notify[0].slack.token: is needed")
	f(target+"notify: [{slack: {token: "+canary+"}}]", "notify[0].slack.channel: is needed")
	f(target+"notify: [{stdout: {}}, {stdout: {}}]", `notify[1]: is called "stdout" like notify[0]`)
	f(target+"notify: [{slack_webhook: {url: "+canary+"}}, {slack_webhook: {url: "+canary+"2}}]", `notify[1]: is called "slack-webhook" like notify[0]`)
	f("targets: [{name: a, checker: {url: \"admin:"+canary+"@127.0.0.1:1\"}}]", "got something else")
	f("targets: [{name: a, checker: {url: \"http:/admin:"+canary+"@127.0.0.1:1\"}}]", "got something else")
	f(target+"notify: [{slack_webhook: {}}]", "notify[0].slack_webhook.url: is needed")
}

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	path := write(t, "diagnose.yml", `
targets: [{name: a, checker: {url: "http://127.0.0.1:1", token: `+canary+`}, redis: {address: "127.0.0.1:2", password: `+canary+`}, shards: [{name: s, dsn: "postgres://u:`+canary+`@127.0.0.1:3/d"}]}]
webhook: {tokens: [`+canary+`]}
notify: [{slack: {token: `+canary+`, channel: C1}}, {slack_webhook: {url: "https://h/`+canary+`"}}]
`)
	c, err := loadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Webhook.Tokens[0].Reveal(); got != canary {
		t.Errorf("Reveal: got %q, want the secret", got)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, *c); strings.Contains(got, canary) {
			t.Errorf("%s prints a secret", format)
		}
		if got := fmt.Sprintf(format, c.Targets[0]); strings.Contains(got, canary) {
			t.Errorf("%s of a target prints a secret", format)
		}
	}
}

// TestRefusals pins what the user sees of bad usage: exit code 2 and a word
// that helps.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := diagnose(t, args...)
		if code != exitUsage || stdout != "" {
			t.Errorf("%q: got exit code %d and stdout %q, want %d and nothing", args, code, stdout, exitUsage)
		}
		contains(t, strings.Join(args, " "), stderr, want)
	}
	f("give the target either by --config FILE or by --checker URL", "run")
	f("--output: want text or json", "run", "--checker", "http://127.0.0.1:1", "--output", "xml")
	f("--notify needs --config", "run", "--checker", "http://127.0.0.1:1", "--notify")
	f("go with --checker", "run", "--config", "x.yml", "--redis", "127.0.0.1:1")
	f("no such file", "run", "--config", "/nowhere/diagnose.yml")
	f("checker URL: want http://host:port, got something else", "run", "--checker", "127.0.0.1:1")
	f(`unknown playbook "nope": want one of registration-path`, "run", "--checker", "http://127.0.0.1:1", "--playbook", "nope")
	f(`unknown scenario "nope"`, "demo", "--scenario", "nope")
	f("unknown command", "diagnos")
	f("unknown flag", "run", "--nope")

	bad := write(t, "bad.yaml", "name: mine\ntitle: Mine\ntimeout: 5s\nsteps:\n  - {id: b, title: B, probe: blom, rules: [{status: ok, summary: fine}]}\n")
	f(`unknown probe "blom"; expected one of bloom, clock, consistency, errlog, latency, postgres, rediscache, shards, traffic; did you mean "bloom"?`,
		"run", "--checker", "http://127.0.0.1:1", "--playbook-file", bad)

	config := write(t, "diagnose.yml", "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}}]\n")
	f("store: is needed", "serve", "--config", config)
	f("webhook.tokens: is needed", "serve", "--config", config)
	f("notify: at least one sink is needed", "serve", "--config", config)
}

// TestSecretsOnlyWhenUsed: a command asks for no secret that it does not need.
func TestSecretsOnlyWhenUsed(t *testing.T) {
	t.Parallel()
	const target = "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}%s}]\nwebhook: {tokens: [{env: DIAGNOSE_NOT_SET}]}\nstore: %s\nnotify: [%s]\n"
	store := t.TempDir() + "/diagnose.db"
	f := func(extra, sink, want string, args ...string) {
		t.Helper()
		config := write(t, "diagnose.yml", fmt.Sprintf(target, extra, store, sink))
		code, _, stderr := diagnose(t, append(args, "--config", config)...)
		if want == "" && code != exitInconclusive {
			t.Errorf("%q: got exit code %d and %q, want a report", args, code, stderr)
		}
		contains(t, strings.Join(args, " "), stderr, want)
	}
	f("", "{stdout: {}}", "", "run")
	f("", "{stdout: {}}", "webhook.tokens[0]: environment variable DIAGNOSE_NOT_SET is not set", "serve")
	f("", "{stdout: {}}", "names no sink but stdout", "run", "--notify")
	f(", redis: {address: \"127.0.0.1:2\", password: {file: /nowhere/pw}}", "{stdout: {}}", "target a: redis.password: read secret file /nowhere/pw: no such file", "run")
	f("", "{slack: {channel: C1, token: {env: DIAGNOSE_NOT_SET}}}", "notify[0].slack.token: environment variable DIAGNOSE_NOT_SET is not set", "run", "--notify")
}

// TestMisplacedSecrets: a secret written where its reference belongs is not
// shown, nor is one in an address.
func TestMisplacedSecrets(t *testing.T) {
	t.Parallel()
	f := func(yaml, want string, args ...string) {
		t.Helper()
		config := write(t, "diagnose.yml", "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}"+yaml+"}]\n")
		code, stdout, stderr := diagnose(t, append([]string{"run", "-v", "--config", config}, args...)...)
		if code != exitUsage {
			t.Errorf("%s: got exit code %d, want %d", yaml, code, exitUsage)
		}
		contains(t, yaml, stderr, want)
		if strings.Contains(stdout+stderr, canary) {
			t.Errorf("%s: the secret is shown:\n%s", yaml, stdout+stderr)
		}
	}
	f(`, redis: {address: "127.0.0.1:2", password: {env: `+canary+`}}`, "environment variable (not shown")
	f(`, redis: {address: "127.0.0.1:2", password: {file: `+canary+`}}`, "read secret file (not shown")
	f(`, redis: {address: "`+canary+`@127.0.0.1:2"}`, "the Redis address is not host:port")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, _ := diagnose(t, "version")
	if code != 0 || !strings.HasPrefix(stdout, "diagnose ") || !strings.Contains(stdout, "go1.") {
		t.Errorf("got exit code %d and %q", code, stdout)
	}
}

// TestBuiltinLoads makes sure that the shipped playbooks name facts which the
// real probes have.
func TestBuiltinLoads(t *testing.T) {
	t.Parallel()
	byName, err := loadPlaybooks((&target{}).catalog(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pick(byName, defaultPlaybook); err != nil {
		t.Error(err)
	}
}
