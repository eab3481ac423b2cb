package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	f("{}", "diagnose.yml:1:1: targets: there is none")
	f("", "file is empty")
	f("targets: [{name: a, checker: {url: \"ftp://u:"+canary+"@h\"}}]", "diagnose.yml:1:36: targets[0].checker.url: is no URL that begins with http:// or https://; expected http://host:port")
	f("targets: [{name: a, checker: {url: \"http://u:"+canary+"@h\"}}]", "holds credentials", "checker.token")
	f("targets: [{checker: {url: \"http://h\"}}]", "diagnose.yml:1:11: targets[0].name: is needed")
	f(target+"targets: []", `field "targets" is given twice`)
	f("targets: [{name: a, checker: {url: \"http://h\"}}, {name: a, checker: {url: \"http://h\"}}]", `diagnose.yml:1:57: targets[1].name: "a" is taken by targets[0]`)
	f("targets: [{name: a, checker: {url: \"http://h\"}, shards: [{name: s}]}]", "targets[0].shards[0].dsn: is needed; expected {env: SHARD0_DSN}")
	f("targets: [{name: a, checker: {url: \"http://h\"}, shards: [{name: s, dsn: \"host=h\"}, {name: s, dsn: \"host=i\"}]}]", `targets[0].shards[1].name: "s" is taken by shards[0]`)
	f("targets: [{name: a, checker: {url: \"http://h\"}, redis: {password: "+canary+"}}]", "targets[0].redis.address: is needed")
	f("targets: [{name: a, checker: {url: \"http://h\"}, redis: {address: \"h:1\", username: ops}}]", "targets[0].redis.password: is needed with a username, which is not sent alone")
	f(target+"listen: http://x:0", "diagnose.yml:2:9: listen: is not host:port alone")
	f(target+"listen: ':htpp'", "listen: the port is not a number from 1 to 65535; expected host:port, such as 127.0.0.1:9095")
	f(target+"window: 40s", "diagnose.yml:2:9: window: 40s is not between 500ms and 30s")
	f(target+"recorder: {every: 10ms}", "recorder.every: 10ms is less than 1s")
	f(target+"recorder: {every: 1m, keep: 1s}", "recorder.keep: 1s is not between one and 3600 times 1m0s")
	f(target+"alertmanagers: [{url: \"http://u:"+canary+"@h\", receiver: r}]", "alertmanagers[0].url: holds credentials")
	f(target+"alertmanagers: [{url: h:9093, receiver: r}]", "alertmanagers[0].url: is no URL", "expected http://host:9093")
	f(target+"alertmanagers: [{url: \"http://h\"}]", "alertmanagers[0].receiver: is needed")
	f(target+"watchdog: {within: 5m}", "watchdog.matchers: at least one is needed")
	f(target+"watchdog: {matchers: ['alertname='], within: 5m}", "diagnose.yml:2:23: watchdog.matchers[0]: is no matcher; expected a matcher as in Alertmanager")
	f(target+"watchdog: {matchers: ['alertname=\"Watchdog\"'], within: 10s}", "watchdog.within: 10s is too short; expected at least 1m0s")
	f(target+"notify: [{}]", "notify[0]: has 0 sinks; expected exactly one of slack, slack_webhook, stdout")
	f(target+"notify: [{stdout: {}, slack: {channel: C1, token: "+canary+"}}]", "notify[0]: has 2 sinks")
	f(target+"notify: [{slack: {channel: C1}}]", "notify[0].slack.token: is needed")
	f(target+"notify: [{slack: {token: "+canary+"}}]", "notify[0].slack.channel: is needed")
	f(target+"notify: [{stdout: {}}, {stdout: {}}]", `notify[1].stdout: is called "stdout" like notify[0]`)
	f(target+"notify: [{slack_webhook: {url: \"https://h/"+canary+"\"}}, {slack_webhook: {url: \"https://h/"+canary+"2\"}}]", `notify[1].slack_webhook.name: is called "slack-webhook" like notify[0]`)
	f("targets: [{name: a, checker: {url: \"admin:"+canary+"@127.0.0.1:1\"}}]", "is no URL")
	f("targets: [{name: a, checker: {url: \"http:/admin:"+canary+"@127.0.0.1:1\"}}]", "names no host")
	f(target+"notify: [{slack_webhook: {}}]", "notify[0].slack_webhook.url: is needed")
	f(target+"notify: [{slack_webhook: {url: "+canary+"}}]", "notify[0].slack_webhook.url: is no URL")
	f(target+"routes: [{matchers: ['a=\"b\"'], target: b}]", `diagnose.yml:2:40: routes[0].target: unknown target "b"; expected one of a`)
	f(target+"routes: [{matchers: ['a=\"b\"'], notify: [slack]}]", `routes[0].notify[0]: unknown sink "slack"; expected a sink of those under notify, of which there is none`)
	f(target+"notify: [{stdout: {}}]\nroutes: [{matchers: ['a=\"b\"'], notify: [stdou]}]", `routes[0].notify[0]: unknown sink "stdou"; expected one of stdout; did you mean "stdout"?`)
	for pattern, want := range map[string]string{
		`P0|(`: `a "(" has no ")"`, `P0)`: `a ")" has no "("`, `[a`: `a "[" has no "]"`, `[b-a]`: `"b-a" is no range of characters`,
		`*`: `nothing stands before "*" that it could repeat`, `a**`: `"**" repeats what is repeated already`, `a{2000}`: `"{2000}" repeats too often`,
		`(?=a)`: `"(?=" is not known`, `\\y`: `"\\y" means nothing`,
	} {
		f(target+"routes: [{matchers: ['severity=~\""+pattern+"\"']}]", "diagnose.yml:2:22: routes[0].matchers[0]: the regular expression cannot be read: "+want)
	}
}

// TestPorts: a port that cannot be one is told at its place, whatever has it.
func TestPorts(t *testing.T) {
	t.Parallel()
	_, err := loadConfig(write(t, "diagnose.yml", `listen: 127.0.0.1:99999
store: postgres://u:`+canary+`@h:70000/d
alertmanagers: [{url: "http://h:70000", receiver: r}]
targets:
  - name: a
    checker: {url: "http://h:70000"}
    redis: {address: "h:70000"}
    shards:
      - {name: s, dsn: "postgres://u:`+canary+`@h:70000/d"}
    pgbouncers:
      - {name: b, dsn: "host=h port=70000 password=`+canary+`"}
notify:
  - slack: {token: t, channel: C1, api_url: "http://h:70000"}
  - slack_webhook: {url: "http://h:70000/`+canary+`"}
`))
	if err == nil {
		t.Fatal("got no error")
	}
	got := err.Error()
	for _, want := range []string{
		"1:9: listen: the port 99999 is not between 1 and 65535; expected host:port", "2:8: store: the port", "3:23: alertmanagers[0].url: the port 70000",
		"6:20: targets[0].checker.url: the port 70000", "7:22: targets[0].redis.address: the port 70000", "9:24: targets[0].shards[0].dsn: the port",
		"11:24: targets[0].pgbouncers[0].dsn: the port", "13:45: notify[0].slack.api_url: the port 70000", "14:26: notify[1].slack_webhook.url: the port 70000",
	} {
		contains(t, "error", got, "diagnose.yml:"+want)
	}
	if lines := strings.Split(got, "\n"); len(lines) != 9 || strings.Contains(got, canary) {
		t.Errorf("got %d lines, want 9 and no secret:\n%s", len(lines), got)
	}
}

// TestFaultsOfServe: what `serve` needs, and what it refers to and is not there, are
// told beside the faults of the file, and nothing for a consequence of another.
func TestFaultsOfServe(t *testing.T) {
	t.Parallel()
	config := write(t, "diagnose.yml", `stroe: x.db
playbook: registration-pat
webhook: {tokens: [{env: DIAGNOSE_NOT_SET}]}
targets:
  - {nam: one, checker: {url: "http://127.0.0.1:1"}}
  - name: two
    checker: {url: "http://127.0.0.1:1"}
    shards: [{name: s, dsn: {file: shard9}}]
routes:
  - {matchers: ['a="b"'], target: one, playbook: nope, notify: [stdot]}
notify: [{stdout: {}}]
recorder: {every: soon, keep: 5}
`)
	code, _, stderr := diagnose(t, "serve", "--config", config)
	if code != exitUsage {
		t.Errorf("got exit code %d, want %d", code, exitUsage)
	}
	want := `diagnose.yml:1:1: unknown field "stroe"; expected one of listen, store, webhook, alertmanagers, watchdog, targets, playbook, playbooks, urgent, routes, window, recorder, notify; did you mean "store"?
diagnose.yml:2:11: playbook: unknown playbook "registration-pat"; expected one of registration-path; did you mean "registration-path"?
diagnose.yml:3:20: webhook.tokens[0]: environment variable DIAGNOSE_NOT_SET is not set
diagnose.yml:5:6: targets[0]: unknown field "nam"; expected one of name, checker, redis, shards, pgbouncers; did you mean "name"?
diagnose.yml:8:29: targets[1].shards[0].dsn: read secret file shard9: no such file or directory
diagnose.yml:10:50: routes[0].playbook: unknown playbook "nope"; expected one of registration-path
diagnose.yml:10:65: routes[0].notify[0]: unknown sink "stdot"; expected one of stdout; did you mean "stdout"?
diagnose.yml:12:19: recorder.every: wrong type: text; expected a duration such as 500ms or 10s
diagnose.yml:12:31: recorder.keep: wrong type: a number; expected a duration such as 500ms or 10s
`
	if got := strings.ReplaceAll(stderr, filepath.Dir(config)+"/", ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
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
	f("--target needs --config", "run", "--checker", "http://127.0.0.1:1", "--target", "a")
	f("--redis, --redis-tls: goes with --checker, not with --config", "run", "--config", "x.yml", "--redis", "127.0.0.1:1", "--redis-tls")
	f("--checker-token-file: goes with --checker", "run", "--config", "x.yml", "--checker-token-file", "token")
	f("no such file", "run", "--config", "/nowhere/diagnose.yml")
	f("--checker: is no URL that begins with http:// or https://; expected http://host:port", "run", "--checker", "127.0.0.1:1")
	f("--checker: the port 99999 is not between 1 and 65535; expected http://host:port", "run", "--checker", "http://127.0.0.1:99999")
	f("--checker: the port 0 is not between 1 and 65535; expected http://host:port", "run", "--checker", "http://127.0.0.1:0")
	f("--window: 1ms is not between 500ms and 30s", "run", "--checker", "http://127.0.0.1:1", "--window", "1ms")
	f("--redis: the port 70000 is not between 1 and 65535; expected host:port", "run", "--checker", "http://127.0.0.1:1", "--redis", "localhost:70000")
	f("--shard-dsn of shard0: the port is not a number from 1 to 65535", "run", "--checker", "http://127.0.0.1:1", "--shard-dsn", "postgres://h:70000/d")
	dsn := write(t, "shard", "postgres://u:"+canary+"@h:70000/d")
	f("--shard-dsn-file "+dsn+": the port is not a number from 1 to 65535", "run", "--checker", "http://127.0.0.1:1", "--shard-dsn-file", dsn)
	f("--pgbouncer-dsn-file "+dsn+": the port is not", "run", "--checker", "http://127.0.0.1:1", "--pgbouncer-dsn-file", dsn)
	f("--shard-dsn-file: read secret file shard9: no such file or directory", "run", "--checker", "http://127.0.0.1:1", "--shard-dsn-file", "shard9")
	f("--pgbouncer-dsn-file: read secret file shard9: no such file or directory", "run", "--checker", "http://127.0.0.1:1", "--pgbouncer-dsn-file", "shard9")
	f("--redis-password-file: read secret file pw: no such file or directory", "run", "--checker", "http://127.0.0.1:1", "--redis-password-file", "pw")
	f("--checker-token-file: read secret file token: no such file or directory", "run", "--checker", "http://127.0.0.1:1", "--checker-token-file", "token")
	f("--redis: is needed; expected host:port", "run", "--checker", "http://127.0.0.1:1", "--redis-username", "ops", "--redis-password-file", dsn)
	f("--redis: is needed; expected host:port", "run", "--checker", "http://127.0.0.1:1", "--redis-tls")
	f("--redis-password-file: is needed with a username, which is not sent alone", "run", "--checker", "http://127.0.0.1:1", "--redis", "127.0.0.1:1", "--redis-username", "ops")
	f("--store: the store is neither", "incidents", "--store", "mysql://h/d")
	f("--store: is a folder, a device or the like; expected the file of an agent's store", "incidents", "--store", t.TempDir())
	f("expected http://host:port; a bearer token goes into the file of --checker-token-file", "run", "--checker", "h:1")
	f("expected host:port; --redis-username, --redis-password-file and --redis-tls have the rest", "run", "--checker", "http://h:1", "--redis", "redis://h:1")
	f("--store: the port in the store's URL is not", "incidents", "--store", "postgres://h:70000/d")
	f(`unknown playbook "registration-pth": want one of registration-path; did you mean "registration-path"?`, "run", "--checker", "http://127.0.0.1:1", "--playbook", "registration-pth")
	f(`unknown playbook "nope": want one of registration-path`, "run", "--checker", "http://127.0.0.1:1", "--playbook", "nope")
	f(`unknown scenario "nope"`, "demo", "--scenario", "nope")
	f(`unknown scenario "hot-nam"; did you mean "hot-name"?`, "demo", "--scenario", "hot-nam")
	f("unknown command \"diagnos\": want one of", "diagnos")
	f(`unknown command "incident": did you mean "incidents"?`, "help", "incident")
	f(`unknown command "bahs": did you mean "bash"? diagnose completion --help lists all`, "completion", "bahs")
	f("open diagnose.yml: no such file or directory; give another by --config FILE", "serve")
	f("--names goes with --list", "demo", "--names")
	f("--since: want how long ago", "incidents", "--store", "x", "--since", "-5m")
	f("is a folder, a device or the like: want the name of a file", "run", "--checker", "http://127.0.0.1:1", "--record", t.TempDir())
	f("is a folder, a device or the like: want the name of a file", "run", "--checker", "http://127.0.0.1:1", "--record", os.DevNull)
	f("read /dev/zero: is larger than 4 MB", "run", "--config", "/dev/zero")
	f("read /dev/zero: is larger than 4 MB", "lint", "/dev/zero")
	f("read /dev/zero: is larger than 64 MB", "replay", "/dev/zero")
	f("want what run --record or run --output json wrote", "replay", "config_test.go")
	f("anchors and aliases are not supported", "run", "--config", write(t, "bomb.yml", "targets: &a [*a, *a]\n"))
	f(`unknown command "rn": did you mean "run"?`, "rn", "--config", "x.yml")
	f(`unknown command "list": did you mean "incidents"?`, "list")
	f("unknown flag --nope; see diagnose run --help", "run", "--nope")
	f(`unknown flag --confg; did you mean "--config"?`, "serve", "--confg", "x.yml")
	f(`--window: want a duration such as 500ms or 10s, got "soon"`, "run", "--window", "soon")
	f(`diagnose run: want flags only, got "x.yml" as well`, "run", "x.yml")
	f("diagnose replay: want one FILE", "replay")
	f(`diagnose incidents: want at most one ID, got "b" as well`, "incidents", "a", "b")

	bad := write(t, "bad.yaml", "name: mine\ntitle: Mine\ntimeout: 5s\nsteps:\n  - {id: b, title: B, probe: blom, rules: [{status: ok, summary: fine}]}\n")
	f(`unknown probe "blom"; expected one of bloom, clock, consistency, errlog, latency, postgres, rediscache, shards, traffic; did you mean "bloom"?`,
		"run", "--checker", "http://127.0.0.1:1", "--playbook-file", bad)

	config := write(t, "diagnose.yml", "targets: [{name: a, checker: {url: \"http://127.0.0.1:1\"}}]\n")
	f("store: is needed", "serve", "--config", config)
	f("webhook.tokens: at least one is needed", "serve", "--config", config)
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
	f("", "{stdout: {}}", "", "run", "--notify")
	f("", "", "notify: is needed for --notify; expected at least one sink", "run", "--notify")
	f(", redis: {address: \"127.0.0.1:2\", password: {file: /nowhere/pw}}", "{stdout: {}}", "targets[0].redis.password: read secret file /nowhere/pw: no such file", "run")
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
	f(`, shards: [{name: s, dsn: {file: "postgres://u:`+canary+`@h/d"}}]`, "targets[0].shards[0].dsn: want the name of a file that holds the secret")
	f(`, shards: [{name: s, dsn: {file: "host=h password=`+canary+`"}}]`, "targets[0].shards[0].dsn: want the name of a file that holds the secret")
	f(`, redis: {address: "`+canary+`@127.0.0.1:2"}`, "targets[0].redis.address: is not host:port")
}

// TestInterrupted: who stops a run is told just that, by an exit code that is none of
// a report's.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer target.Close()
	var stdout, stderr bytes.Buffer
	recording := filepath.Join(t.TempDir(), "r.json")
	code := run(ctx, []string{"run", "--checker", target.URL, "--record", recording}, streams{out: &stdout, err: &stderr})
	if code != exitInterrupted || stdout.Len() > 0 || stderr.String() != "diagnose: interrupted\n" {
		t.Errorf("got exit code %d, %q and %q", code, stdout.String(), stderr.String())
	}
	if left, err := os.ReadDir(filepath.Dir(recording)); err != nil || len(left) > 0 {
		t.Errorf("%d files are left: %v", len(left), err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		code, stdout, _ := diagnose(t, arg)
		if code != 0 || !strings.HasPrefix(stdout, "diagnose ") || !strings.Contains(stdout, "go1.") {
			t.Errorf("%s: got exit code %d and %q", arg, code, stdout)
		}
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
