package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/regpath/diagnose/cmd/shell"
)

// full takes nothing, as a disk without room or a pipe that nobody reads.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestUntold: a report that was made and could not be told or kept has an exit code of
// its own, for its verdict reached nobody and the command was right.
func TestUntold(t *testing.T) {
	t.Parallel()
	old := write(t, "old.json", oldRecording)
	for _, args := range [][]string{
		{"replay", old},
		{"replay", old, "--output", "json"},
		{"run", "--checker", "http://127.0.0.1:1"},
		{"lint"},
		{"test"},
		{"docs"},
		{"version"},
		{"--version"},
		{"--help"},
		{"help", "run"},
		{"serve", "--help"},
		{"demo", "--list"},
		{"completion", "bash"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, streams{out: full{}, err: &stderr}); code != exitUntold {
			t.Errorf("%q: got exit code %d, want %d", args, code, exitUntold)
		}
		const want = "diagnose: write to stdout: no space left on device: the output is not complete\n"
		if stderr.String() != want {
			t.Errorf("%q: got %q, want %q", args, &stderr, want)
		}
	}

	folder := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = os.RemoveAll(folder) // while the run is under way
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(target.Close)
	says(t, exitUntold, []string{"run", "--checker", target.URL, "--record", filepath.Join(folder, "r.json")}, "diagnose: record: ", "no such file")
}

// takingSink is a chat that takes one report, and tells when it has.
func takingSink(t *testing.T) (url string, taken <-chan struct{}) {
	t.Helper()
	c := make(chan struct{}, 1)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c <- struct{}{}
		_, _ = w.Write([]byte("ok"))
	}))
	t.Cleanup(sink.Close)
	return sink.URL, c
}

// TestUnread: where nobody reads the report, it is recorded and sent all the same, and
// nothing is said of it.
func TestUnread(t *testing.T) {
	t.Parallel()
	url, taken := takingSink(t)
	config := write(t, "diagnose.yml", `targets: [{name: a, checker: {url: "http://127.0.0.1:1"}}]
notify: [{slack_webhook: {url: "`+url+`/x"}}]
`)
	kept := filepath.Join(t.TempDir(), "r.json")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "run", "--config", config, "--notify", "--record", kept)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asAgent+"=1"), writer, &stderr
	err = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != shell.ExitUnread || stderr.Len() > 0 {
		t.Errorf("got exit code %d (%v) and %q, want %d, quietly", code, err, &stderr, shell.ExitUnread)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
	if _, err := readRecording(kept); err != nil {
		t.Error(err)
	}
	select {
	case <-taken:
	default:
		t.Error("the report was not sent")
	}
}

// TestUntoldBySink: a sink that takes nothing is told of, and the next one has the report.
func TestUntoldBySink(t *testing.T) {
	t.Parallel()
	url, taken := takingSink(t)
	config := write(t, "diagnose.yml", `targets: [{name: a, checker: {url: "http://127.0.0.1:1"}}]
notify:
  - slack_webhook: {name: dead, url: "http://`+freeAddress(t)+`/x"}
  - slack_webhook: {name: good, url: "`+url+`/x"}
`)
	says(t, exitUntold, []string{"run", "--config", config, "--notify"}, "diagnose: send the report: dead: ", "connection refused")
	select {
	case <-taken:
	default:
		t.Error("the sink after the dead one was told nothing")
	}
}
