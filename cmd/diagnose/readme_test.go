package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/reference/local"
)

// manual is README.md.
func manual(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fenced returns the fenced blocks of a language in the manual.
func fenced(t *testing.T, language string) []string {
	t.Helper()
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(manual(t), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("the manual has no block of %s", language)
	}
	return blocks
}

// block is the YAML of the manual that begins with a comment.
func block(t *testing.T, comment string) string {
	t.Helper()
	for _, b := range fenced(t, "yaml") {
		if strings.HasPrefix(b, "# "+comment) {
			return b
		}
	}
	t.Fatalf("the manual shows no %q", comment)
	return ""
}

// commands are the lines of shell in the manual, without comments.
func commands(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, b := range fenced(t, "sh") {
		for line := range strings.Lines(strings.ReplaceAll(b, "\\\n", " ")) {
			line, _, _ = strings.Cut(line, " #")
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				all = append(all, line)
			}
		}
	}
	return all
}

// TestManualLength: the manual is to be read.
func TestManualLength(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(manual(t), "\n"); lines > 250 {
		t.Errorf("the manual has %d lines, want 250 at most", lines)
	}
}

// TestManualCommands carries out every command of the manual, in its order, on a
// service of the test's own. Those of the checker have a test beside the checker.
func TestManualCommands(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	path, err := local.Start(t.Context(), local.Options{Names: 200, Shards: 2, Faults: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := path.Close(); err != nil {
			t.Error(err)
		}
	})
	address := freeAddress(t)
	mine := strings.NewReplacer("127.0.0.1:8080", strings.TrimPrefix(path.URL, "http://"), "127.0.0.1:6379", path.RedisAddr, "127.0.0.1:9095", address)
	texts := builtinTexts(t)
	texts["mine.yaml"], texts["mine_test.yaml"] = texts["registration-path.yaml"], block(t, "mine_test.yaml")
	texts["diagnose.yml"] = mine.Replace(block(t, "diagnose.yml, the shortest")) + fmt.Sprintf("listen: %s\nwindow: 500ms\n", address)
	for _, shard := range []string{"shard0.dsn", "shard1.dsn"} {
		texts[shard] = "postgres://diagnose@127.0.0.1:1/names\n" // the embedded shards have none
	}
	dir := folder(t, texts)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o700), os.Symlink(self, filepath.Join(dir, "bin", "diagnose"))); err != nil {
		t.Fatal(err)
	}
	shell := func(command string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", "exec "+mine.Replace(command))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), asAgent+"=1")
		return cmd
	}
	run := func(command string, good func(code int) bool) {
		t.Helper()
		cmd := shell(command)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || !good(cmd.ProcessState.ExitCode()) {
			t.Errorf("%s\n%v\n%s", command, err, out)
		}
	}
	notUsage := func(code int) bool { return code >= 0 && code != exitUsage }
	well := func(code int) bool { return code == 0 }

	run("bin/diagnose run --config diagnose.yml --record well.json", notUsage)
	ran := 0
	for _, command := range commands(t) {
		words := strings.Fields(command)
		ran++
		switch {
		case words[0] == "make":
			if !strings.Contains(string(makefile), "\n"+words[1]+":") {
				t.Errorf("%q: no such target", command)
			}
		case words[0] == "bin/checker":
		case strings.HasPrefix(command, "bin/diagnose serve"):
			cmd := shell(command)
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			start(t, cmd)
			eventually(t, "the agent is ready", 20*time.Second, func() bool { return answers(t, "http://"+address+"/-/ready") })
		case words[0] == "bin/diagnose":
			run(command, notUsage)
		case words[0] == "curl":
			run(command, well)
		default:
			t.Errorf("nothing carries out %q", command)
		}
	}
	if ran < 15 {
		t.Errorf("only %d commands were found in the manual", ran)
	}
}

// TestManualFlags: what the manual says in passing exists, with its flags.
func TestManualFlags(t *testing.T) {
	t.Parallel()
	passing := regexp.MustCompile("`bin/diagnose ([^`]+)`").FindAllStringSubmatch(manual(t), -1)
	if len(passing) == 0 {
		t.Error("the manual mentions no command")
	}
	for _, m := range passing {
		cmd, rest, err := newRoot(streams{}, streams{}).Find(strings.Fields(m[1]))
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || !cmd.HasParent() {
			t.Errorf("%q: %v", m[1], err)
		}
	}
}

// TestManualConfiguration: both configurations that the manual shows are taken by
// `serve`, up to the secrets that only their owner has.
func TestManualConfiguration(t *testing.T) {
	t.Parallel()
	if _, err := loadConfig(write(t, "diagnose.yml", block(t, "diagnose.yml, the shortest")), checkServe); err != nil {
		t.Error(err)
	}
	_, err := loadConfig(write(t, "diagnose.yml", block(t, "diagnose.yml, with everything")), checkServe)
	if err == nil {
		t.Fatal("got no error, want one for each secret that is not there")
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.Contains(line, "is not set") && !strings.Contains(line, "read secret file") {
			t.Error(line)
		}
	}
}

// TestManualReport: the report that the manual shows speaks as reports do now. Its
// lines, but for the figures, are those of the reports that the playbooks' tests keep.
func TestManualReport(t *testing.T) {
	t.Parallel()
	goldens, err := filepath.Glob("../../playbooks/testdata/*/*/report.json")
	if err != nil || len(goldens) == 0 {
		t.Fatalf("no reports: %v", err)
	}
	figure := regexp.MustCompile(`-?\d([\d,.]*\d)?(e-?\d+)?( (%|[nµm]?s|[kM]?B)|/s)?|\b(low|medium|high) confidence`)
	masked := func(s string) string { return strings.Join(strings.Fields(figure.ReplaceAllString(s, "#")), " ") }
	var known strings.Builder
	for _, path := range goldens {
		r, err := readRecording(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := notify.Text(&known, r, notify.TextOptions{Width: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	reports := masked(known.String())
	_, sample, _ := strings.Cut(manual(t), "## What a report looks like")
	_, sample, _ = strings.Cut(sample, "```\n")
	sample, _, _ = strings.Cut(sample, "```")
	seen := 0
	for line := range strings.Lines(sample) {
		seen++
		if line = masked(strings.TrimSuffix(strings.TrimSpace(line), "…")); !strings.Contains(reports, line) {
			t.Errorf("no report says %q", line)
		}
	}
	if seen < 20 {
		t.Errorf("the report in the manual has %d lines", seen)
	}
}
