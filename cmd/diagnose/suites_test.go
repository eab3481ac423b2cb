package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tiny is a playbook of one step.
const tiny = `
name: tiny
title: Tiny
timeout: 1s
steps:
  - id: redis
    title: Redis
    probe: rediscache
    rules:
      - {status: critical, when: redis.reachable == 0, summary: Down.}
      - {status: ok, summary: Up.}
causes:
  - id: redis-down
    title: Redis is down
    layer: redis
    summary: Redis is down.
    when: [redis.reachable == 0]
    actions: [Start it.]
    source: test
`

const tinyTest = `
playbook: tiny.yaml
tests:
  - {name: down, evidence: {redis: {reachable: false}}, expect: {causes: [redis-down], status: {redis: critical}}}
  - {name: up, evidence: {redis: {reachable: true}}, expect: {status: {redis: ok}}}
`

// folder writes files, in folders if their names say so, and returns the root.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// says runs the program and holds its exit code and all it says to account.
func says(t *testing.T, code int, args []string, parts ...string) {
	t.Helper()
	got, stdout, stderr := diagnose(t, args...)
	if got != code {
		t.Errorf("%q: got exit code %d, want %d", args, got, code)
	}
	contains(t, strings.Join(args, " "), stdout+stderr, parts...)
}

func TestTestAndLintOfWhatIsBuiltIn(t *testing.T) {
	t.Parallel()
	says(t, exitHealthy, []string{"test", "--strict"}, "ok    builtin/registration-path_test.yaml: ")
	says(t, exitHealthy, []string{"lint"}, "ok    builtin/registration-path.yaml: registration-path: 9 steps, ")
}

func TestTest(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"tiny.yaml": tiny, "tiny_test.yaml": tinyTest, "readme_test.txt": "no test"})
	file := filepath.Join(dir, "tiny_test.yaml")
	says(t, exitHealthy, []string{"test", file, "--strict"}, "ok    "+file+": 2 tests")
	says(t, exitHealthy, []string{"test", dir}, "ok    "+file+": 2 tests")

	less, _, _ := strings.Cut(tinyTest, "  - {name: up")
	dir = folder(t, map[string]string{"tiny.yaml": tiny, "tiny_test.yaml": less})
	says(t, exitHealthy, []string{"test", dir}, "not reached by any test: "+filepath.Join(dir, "tiny.yaml")+":11: step redis, rules[1], ok without a condition")
	says(t, exitFailed, []string{"test", dir, "--strict"}, "ok    ", "not reached by any test")

	// A failing test in a folder below, on a recording of the redis-down kind.
	dir = folder(t, map[string]string{
		"deep/tiny.yaml": tiny, "deep/old.json": oldRecording,
		"deep/tiny_test.yaml": "playbook: tiny.yaml\ntests:\n  - {name: old, recording: old.json, expect: {causes: [redis-down]}}\n",
	})
	says(t, exitFailed, []string{"test", dir}, "FAIL  "+filepath.Join(dir, "deep", "tiny_test.yaml")+":3: old",
		"      causes: got none, want redis-down", "          redis-down is neither shown nor ruled out", ": 1 of 1 test",
		"not reached by any test: ", "tiny.yaml:13: cause redis-down")
}

func TestTestRefuses(t *testing.T) {
	t.Parallel()
	misspelt := strings.Replace(tinyTest, "reachable: true", "reachible: true", 1)
	dir := folder(t, map[string]string{
		"a_test.yaml": "playbook: gone.yaml\ntests: [{name: one, expect: {causes: []}}]", "b_test.yaml": misspelt,
		"tiny.yaml": strings.Replace(tiny, "status: ok", "status: okay", 1),
	})
	says(t, exitUsage, []string{"test", dir}, "a_test.yaml: playbook \"gone.yaml\": open ", "tiny.yaml:11:18: steps[0].rules[1].status: unknown status \"okay\"")
	dir = folder(t, map[string]string{"b_test.yaml": misspelt, "tiny.yaml": tiny})
	says(t, exitUsage, []string{"test", dir}, "b_test.yaml:5:35: ", `did you mean "reachable"?`)
	says(t, exitUsage, []string{"test", t.TempDir()}, "no *_test.yaml in ")
	says(t, exitUsage, []string{"test", "gone.yaml"}, "no such file")
}

func TestLint(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"tiny.yaml": tiny, "tiny_test.yaml": tinyTest,
		"bad.yaml":      strings.NewReplacer("name: tiny", "name: bad", "redis.reachable == 0", "redis.reachible == 0").Replace(tiny),
		"bad_test.yaml": "playbook: tiny.yaml\ntests: []\n",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	says(t, exitHealthy, []string{"lint", at("tiny.yaml"), at("tiny_test.yaml")}, "ok    "+at("tiny.yaml")+": tiny: 1 step, 2 rules, 1 cause")
	args := []string{"lint", at("bad.yaml"), at("tiny.yaml"), at("bad_test.yaml"), at("gone.yaml")}
	says(t, exitUsage, args, at("bad.yaml")+`:10:34: steps[0].rules[0].when: unknown fact "redis.reachible"; did you mean "redis.reachable"?`,
		at("bad.yaml")+":17:12: causes[0].when[0]: ", at("bad_test.yaml")+":1:1: tests: no tests", "gone.yaml: no such file")
	if _, stdout, stderr := diagnose(t, args...); stdout != "" || strings.Contains(stderr, "diagnose:") {
		t.Errorf("faults must stand alone on stderr, got %q and %q", stdout, stderr)
	}
}
