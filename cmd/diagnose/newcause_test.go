package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// ownCause is all that it takes to add a cause: one block of YAML.
const ownCause = `causes:
  - id: empty-path
    title: Nobody asks the service anything
    layer: redis
    summary: Nobody asks the service anything; {redis.command_rate} commands reach Redis.
    when:
      - redis.command_rate == 0
    against:
      - redis.pool_pending > 0
    actions:
      - Look at what stands before the service.
    source: a service in use is asked all the time
`

// ownTest is the unit test that goes with it.
const ownTest = `
playbook: registration-path.yaml
tests:
  - name: nobody asks
    evidence:
      redis: {reachable: true, hung: false, command_rate: 0, errors_rate: 0, pool_pending: 0, pool_pending_min: 0}
    expect:
      causes: [empty-path]
      confidence: {empty-path: high}
  - name: somebody asks
    evidence:
      redis: {command_rate: 10}
    expect:
      causes: []
      ruled_out: [empty-path]
`

// TestNewCause adds a cause at run time, with one more part in a copy
// of the shipped playbook and one file of tests: run, replay, test, lint and docs
// take it.
func TestNewCause(t *testing.T) {
	t.Parallel()
	texts := builtinTexts(t, "\nparts:\n", "\nparts:\n  - own.yaml\n")
	texts["own.yaml"], texts["registration-path_test.yaml"] = ownCause, ownTest
	dir := folder(t, texts)
	playbook, recording := filepath.Join(dir, "registration-path.yaml"), filepath.Join(dir, "recording.json")

	// A service that serves the contract and is asked nothing.
	const doc = `{"started_at":"2026-01-01T00:00:00Z","pool":{"size":20,"in_use":0,"idle":20,"pending":0,"acquires":9,"waits":0,
		"wait_seconds":0,"timeouts":0},"commands":9,"errors":0,"busy_seconds":1,"lookups":9,"hits":{"taken":9,"free":0},"misses":0}`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/diagnose/redis", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(doc))
	})
	service := httptest.NewServer(mux)
	t.Cleanup(service.Close)

	says(t, exitHealthy, []string{"lint", playbook, filepath.Join(dir, "registration-path_test.yaml")}, ", 44 causes")
	says(t, exitHealthy, []string{"test", dir}, "_test.yaml: 2 tests")
	says(t, exitCauseFound, []string{"run", "--checker", service.URL, "--playbook-file", playbook, "--record", recording},
		"Nobody asks the service anything (high confidence)", "Look at what stands before the service.")
	says(t, exitCauseFound, []string{"replay", recording, "--playbook-file", playbook}, "Nobody asks the service anything")
	says(t, exitHealthy, []string{"docs", playbook}, "### empty-path")

	// The shipped playbook knows nothing of it.
	if _, stdout, _ := diagnose(t, "replay", recording); strings.Contains(stdout, "Nobody asks") {
		t.Errorf("the shipped playbook knows the new cause:\n%s", stdout)
	}
}
