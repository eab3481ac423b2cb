package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/reference/local"
)

// output is a buffer that can be waited for.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	line chan struct{} // closed with the first line
}

func newOutput() *output { return &output{line: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() == 0 {
		close(o.line)
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func noEnvironment(string) (string, bool) { return "", false }

// TestServe starts the embedded checker, asks it, and stops it.
func TestServe(t *testing.T) {
	t.Parallel()
	env := map[string]string{"CHECKER_NAMES": "100", "CHECKER_SHARDS": "3", "CHECKER_LISTEN": "127.0.0.1:1", "CHECKER_NAME_SCRIPT": "Latin Cyrillic"}
	look := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr := newOutput(), newOutput()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--listen", "127.0.0.1:0", "--shards=2", "--faults"}, look, stdout, stderr)
	}()
	select {
	case <-stdout.line:
	case c := <-code:
		t.Fatalf("exit code %d: %s", c, stderr)
	}
	want := regexp.MustCompile(`^checker serves on (http://127\.0\.0\.1:\d+), redis 127\.0\.0\.1:\d+, shard0 embedded, shard1 embedded, faults can be switched\ndiagnose run --checker http://127\.0\.0\.1:\d+ --redis 127\.0\.0\.1:\d+\n$`)
	line := want.FindStringSubmatch(stdout.String())
	if line == nil {
		t.Fatalf("stdout = %q, want what matches %s", stdout, want)
	}
	client := http.Client{Timeout: 10 * time.Second}
	for _, path := range []string{"/healthz", "/v1/check?name=%D0%BC%D0%B8%D1%80"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, line[1]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s = %d, %v", path, res.StatusCode, err)
		}
	}
	client.CloseIdleConnections()
	cancel()
	if c := <-code; c != exitOK || stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q, want 0 and nothing", c, stderr)
	}
}

func TestStoppedBeforeItIsUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stdout, stderr := newOutput(), newOutput()
	if c := run(ctx, []string{"--listen", "127.0.0.1:0", "--names", "10"}, noEnvironment, stdout, stderr); c != exitOK || stdout.String() != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q, want 0 and nothing", c, stdout, stderr)
	}
}

// TestRefuses pins exit codes and that no message tells a secret.
func TestRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(args string, env map[string]string, wantCode int, want string) {
		t.Helper()
		stdout, stderr := newOutput(), newOutput()
		code := run(t.Context(), strings.Fields(args), func(k string) (string, bool) { v, ok := env[k]; return v, ok }, stdout, stderr)
		if code != wantCode || !strings.Contains(stderr.String(), want) || stdout.String() != "" {
			t.Errorf("checker %s %v: code %d, stdout %q, stderr %q, want code %d and %q", args, env, code, stdout, stderr, wantCode, want)
		}
		if strings.Contains(stderr.String(), "s3cret") {
			t.Errorf("checker %s: stderr tells the secret: %s", args, stderr)
		}
	}
	f("--nothing", nil, exitUsage, "unknown flag --nothing")
	f("--shards x", nil, exitUsage, "--shards")
	f("--shards 0x1000", nil, exitUsage, "number of shards")
	f("--names -5", nil, exitUsage, "number of names")
	f("--filter-target-rate 1.5", nil, exitUsage, "target rate")
	f("--name-script latin", nil, exitUsage, `no script is called "latin"`)
	f("--name-punctuation _a", nil, exitUsage, "U+0061 is no punctuation")
	f("--gate", nil, exitUsage, "guard, which is off")
	f("--guard --trusted-proxy nobody", nil, exitUsage, `--trusted-proxy: want a network such as 10.0.0.0/8, or 10.1.2.3/32 for one address, got "nobody"`)
	f("--filter-snapshot "+os.DevNull, nil, exitUsage, "want the name of a file")
	f("--guard --guard-secret-file "+password, nil, exitUsage, "secret of the guard has 6 bytes")
	f("--guard --guard-secret-file postgres://u:s3cret@h/db", nil, exitUsage, "--guard-secret-file: want the name of a file that holds the secret; what stands there looks like the secret itself")
	f("--redis h:1 --redis-password-file "+os.DevNull, nil, exitUsage, "--redis-password-file: secret file "+os.DevNull+" is empty")
	f("--receipt-key-file /dev/zero", nil, exitUsage, "--receipt-key-file: read secret file /dev/zero: is larger than 4 MB")
	f("--filter-snapshot "+dir+"/none/filter", nil, exitUsage, "want a file in a folder that exists")
	f("--names many", nil, exitUsage, `--names: want a whole number, got "many"`)
	f("--cool-down 1d", nil, exitUsage, `--cool-down: want a duration such as 500ms or 10s, got "1d"`)
	f("--filter-capacity -1", nil, exitUsage, `--filter-capacity: want a whole number that is not negative, got "-1"`)
	f("--filter-target-rate low", nil, exitUsage, `--filter-target-rate: want a number such as 0.01, got "low"`)
	f("--cool-down -1s", nil, exitUsage, "cool-down")
	f("--machine 5000", nil, exitUsage, "machine number")
	f("--redis http://u:s3cret@h/", nil, exitUsage, "redis address")
	f("--redis-password-file "+password, nil, exitUsage, "needs --redis")
	f("--redis h:1 --redis-password-file "+dir+"/none", nil, exitUsage, "no such file")
	f("", map[string]string{"CHECKER_SHARDS": "s3cret"}, exitUsage, "CHECKER_SHARDS: want a whole number")
	f("--listen 127.0.0.1:0", map[string]string{"CHECKER_SHARD_DSN": "postgres://u:s3cret@127.0.0.1:1/a?connect_timeout=1 postgres://u:s3cret@127.0.0.1:1/b"}, exitFailed, "shard0")
	f("--listen 192.0.2.1:1 --names 10 --shards 1", nil, exitFailed, "listen")
	f("serve", nil, exitUsage, `unknown command "serve"`)
	f("laod", nil, exitUsage, `did you mean "load"?`)
	f("help laod", nil, exitUsage, `unknown command "laod"`)
	f("completion bahs", nil, exitUsage, `did you mean "bash"?`)
	f("load now", nil, exitUsage, `checker load: want flags only, got "now" as well`)
	f("--nmaes 3", nil, exitUsage, `unknown flag --nmaes; did you mean "--names"?; see checker --help`)
	f("load --scenario hot-nam", nil, exitUsage, `did you mean "hot-name"?`)
	f("--listen nowhere:x", nil, exitUsage, "--listen: the port is not a number from 1 to 65535")
	f("--listen 127.0.0.1:99999", nil, exitUsage, "--listen: the port 99999 is not between 1 and 65535; expected host:port")
	f("--listen http://127.0.0.1:0", nil, exitUsage, "--listen: is not host:port alone")
	f("--redis localhost:70000", nil, exitUsage, "--redis: the port 70000 is not between")
	f("--redis redis://u:s3cret@h:70000", nil, exitUsage, "--redis: the port 70000 is not between")
	f("--followup-url http://u:s3cret@h:70000/x?y=z", nil, exitUsage, "--followup-url: the port 70000 is not between")
	f("--welcome-url h:1", nil, exitUsage, "--welcome-url: is no URL")
	f("--shard-dsn postgres://u:s3cret@h:1/a --shard-dsn postgres://u:s3cret@h:70000/a", nil, exitUsage, "--shard-dsn of shard1: the port is not a number")
	f("--shard-dsn postgres://h:1/a --shard-replica-dsn s3cret", nil, exitUsage, "--shard-replica-dsn of shard0: cannot be read")
	f("load --url http://127.0.0.1:0", nil, exitUsage, "--url: the port 0 is not between 1 and 65535; expected http://host:port of a checker")
	f("load --url http://127.0.0.1:99999", nil, exitUsage, "--url: the port 99999 is not between")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	stdout, stderr := newOutput(), newOutput()
	if c := run(t.Context(), []string{"--help"}, noEnvironment, stdout, stderr); c != exitOK {
		t.Errorf("exit code %d, want 0", c)
	}
	for _, flag := range []string{"listen", "real", "shards", "names", "redis", "shard-dsn", "filter-capacity", "filter-target-rate", "faults", "redis-password-file"} {
		if !strings.Contains(stdout.String(), "--"+flag+" ") {
			t.Errorf("help does not tell of --%s", flag)
		}
	}
}

// TestLoad sends a short load to a checker of its own.
func TestLoad(t *testing.T) {
	t.Parallel()
	path, err := local.Start(t.Context(), local.Options{Names: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := path.Close(); err != nil {
			t.Error(err)
		}
	}()
	stdout, stderr := newOutput(), newOutput()
	if code := run(t.Context(), []string{"load", "--url", path.URL, "--names", "100", "--for", "300ms"}, noEnvironment, stdout, stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if got := stdout.String(); !regexp.MustCompile(`^sent [1-9]\d* in .*check 200: [1-9]`).MatchString(got) {
		t.Errorf("stdout = %q, want what was sent and answered", got)
	}
	stderr = newOutput()
	dead, started := deadAddress(t), time.Now()
	if code := run(t.Context(), []string{"load", "--url", "http://" + dead, "--for", "1m"}, noEnvironment, newOutput(), stderr); code != exitFailed || stderr.String() != "checker: nobody listens at "+dead+": start a checker there, or say by --url where one serves\n" {
		t.Errorf("with nobody listening: exit code %d, stderr %q, want %d and why", code, stderr, exitFailed)
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("with nobody listening: it took %v to say so", took)
	}
	stderr = newOutput()
	if code := run(t.Context(), []string{"load", "--url", mute(t), "--for", "300ms"}, noEnvironment, newOutput(), stderr); code != exitFailed || !strings.Contains(stderr.String(), "nothing was answered at all") {
		t.Errorf("with nobody answering: exit code %d, stderr %q, want %d and why", code, stderr, exitFailed)
	}
	for _, args := range [][]string{{"load", "--scenario", "nope"}, {"load", "--url", "http://192.0.2.1:1"}} {
		if code := run(t.Context(), args, noEnvironment, stdout, stderr); code != exitUsage {
			t.Errorf("%q: exit code %d, want %d", args, code, exitUsage)
		}
	}
}

// mute is the URL of a server that hangs up on everybody.
func mute(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	return server.URL
}

// deadAddress is one that nobody listens on.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// full takes nothing, as a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestUntold: what cannot be printed is an error, at once where the service cannot say
// where it serves.
func TestUntold(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"--listen", "127.0.0.1:0", "--names", "10"}} {
		stderr := newOutput()
		const want = "checker: write to stdout: no space left on device: the output is not complete\n"
		if c := run(t.Context(), args, noEnvironment, full{}, stderr); c != shell.ExitUnwritten || stderr.String() != want {
			t.Errorf("checker %q: exit code %d, stderr %q, want %d and %q", args, c, stderr, shell.ExitUnwritten, want)
		}
	}
}
