package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// full takes nothing, as a disk without room or a pipe that nobody reads.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestUntold: a report that was made and could not be told or kept has an exit code of
// its own, for its verdict reached nobody and the command was right.
func TestUntold(t *testing.T) {
	t.Parallel()
	old := write(t, "old.json", oldRecording)
	for _, args := range [][]string{{"replay", old}, {"replay", old, "--output", "json"}, {"run", "--checker", "http://127.0.0.1:1"}} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, streams{out: full{}, err: &stderr}); code != exitUntold {
			t.Errorf("%q: got exit code %d, want %d", args, code, exitUntold)
		}
		contains(t, args[0], stderr.String(), "diagnose: write the report: ", "no space left on device")
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

// TestUntoldBySink: a sink that takes nothing is told of, and the next one has the report.
func TestUntoldBySink(t *testing.T) {
	t.Parallel()
	taken := make(chan struct{}, 1)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		taken <- struct{}{}
		_, _ = w.Write([]byte("ok"))
	}))
	t.Cleanup(sink.Close)
	config := write(t, "diagnose.yml", `targets: [{name: a, checker: {url: "http://127.0.0.1:1"}}]
notify:
  - slack_webhook: {name: dead, url: "http://`+freeAddress(t)+`/x"}
  - slack_webhook: {name: good, url: "`+sink.URL+`/x"}
`)
	says(t, exitUntold, []string{"run", "--config", config, "--notify"}, "diagnose: send the report: dead: ", "connection refused")
	select {
	case <-taken:
	default:
		t.Error("the sink after the dead one was told nothing")
	}
}
