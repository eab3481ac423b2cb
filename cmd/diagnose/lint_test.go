package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLintOfAFolder: of a folder lint takes playbooks, their parts and tests for what
// they are, and says what it has not looked at.
func TestLintOfAFolder(t *testing.T) {
	t.Parallel()
	builtin := filepath.Join("..", "..", "playbooks", "builtin")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(builtin)); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	keep := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep("compose.yaml", "services: {}\n")
	if err := syscall.Mkfifo(at("pipe_test.yaml"), 0o600); err != nil {
		t.Log(err)
	}
	says(t, exitHealthy, []string{"lint", dir}, "ok    "+at("registration-path.yaml")+": registration-path: 9 steps, ",
		"ok    "+at("registration-path_test.yaml")+": ", " tests of registration-path\n", "skip  "+at("compose.yaml")+": neither a playbook nor tests of one\n")

	const part = ":2:1: has steps or causes but neither name, title nor timeout, as a part of a playbook; expected a playbook; a part is read with the playbook that names it under parts\n"
	for _, command := range []string{"lint", "docs"} {
		says(t, exitUsage, []string{command, at("registration-path/redis.yaml")}, at("registration-path/redis.yaml")+part)
	}
	says(t, exitUsage, []string{"lint", at("registration-path")}, at("registration-path/bloom.yaml")+part, at("registration-path/shards.yaml")+part)

	empty := t.TempDir()
	says(t, exitUsage, []string{"lint", empty}, empty+": no playbook and no tests in or below it, among 0 *.yaml files: want *.yaml with name, title, timeout and steps")
	says(t, exitUsage, []string{"lint", ""}, "want the name of a file or of a folder, got none")
	says(t, exitUsage, []string{"docs", dir}, "read "+dir+": is a folder; want a file")
}

// TestTestsThatAreNotCalledSo: a file is what it holds, and one that is not what a
// command wants is said to be what it is, not to lack everything.
func TestTestsThatAreNotCalledSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "playbooks", "builtin"))); err != nil {
		t.Fatal(err)
	}
	head, tests := filepath.Join(dir, "registration-path.yaml"), filepath.Join(dir, "tests.yml")
	if err := os.Rename(filepath.Join(dir, "registration-path_test.yaml"), tests); err != nil {
		t.Fatal(err)
	}
	says(t, exitHealthy, []string{"lint", tests}, "ok    "+tests+": ")
	says(t, exitUsage, []string{"docs", tests}, tests+":3:1: has tests; expected a playbook; diagnose test runs tests\n")
	says(t, exitUsage, []string{"test", head}, head+":3:1: is a playbook, not tests of one; expected playbook and tests, in a file *_test.yaml\n")
	foreign := write(t, "dsn", "postgres://u:s3cret@h/db\n")
	for _, command := range []string{"lint", "test", "docs"} {
		says(t, exitUsage, []string{command, foreign}, foreign+":1:1: wrong type: text; expected a mapping\n")
	}
}
