package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/local"
)

// TestReplayOfALiveRun records a run against the embedded path and judges it
// again: the same bytes, and the same exit code.
func TestReplayOfALiveRun(t *testing.T) {
	t.Parallel()
	path, err := local.Start(t.Context(), local.Options{Names: 2000, Filter: bloom.Params{Capacity: 500, Rate: 0.01}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := path.Close(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "recording.json")
	code, want, stderr := diagnose(t, "run", "--checker", path.URL, "--redis", path.RedisAddr, "--output", "json", "--record", file)
	if code != exitCauseFound {
		t.Fatalf("run: exit code %d, want the filter to be found too small\n%s%s", code, want, stderr)
	}
	if recorded := read(t, file); recorded != want {
		t.Errorf("the recording is not what was printed:\n%s", recorded)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("recording: %v, %v, want it to be its owner's alone", info.Mode(), err)
	}
	code, got, stderr := diagnose(t, "replay", file, "--output", "json")
	if code != exitCauseFound || got != want {
		t.Errorf("replay: exit code %d, and not the report of the run:\n%s%s", code, got, stderr)
	}
	if _, text, _ := diagnose(t, "replay", file); !strings.Contains(text, "The Bloom filter is too small") {
		t.Errorf("replay as text does not name the cause:\n%s", text)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// oldRecording is what an earlier version might have left.
const oldRecording = `{"id":"r1","playbook":"registration-path","started_at":"2025-01-01T00:00:00Z","findings":[
  {"step":"bloom","source":"checker","facts":[{"name":"fullness","value":0.5},{"name":"fill_ratio","value":0.5}]},
  {"step":"sentinel","source":"sentinel","facts":[{"name":"quorum","value":1}]},
  {"step":"redis","error":"timeout"}]}`

func TestReplayRefusesAndExplains(t *testing.T) {
	t.Parallel()
	f := func(code int, want string, args ...string) {
		t.Helper()
		got, stdout, stderr := diagnose(t, append([]string{"replay"}, args...)...)
		if text := stdout + stderr; got != code || !strings.Contains(text, want) {
			t.Errorf("%q: got exit code %d, want %d and %q in:\n%s", args, got, code, want, text)
		}
	}
	old := write(t, "old.json", oldRecording)
	f(exitInconclusive, "sentinel: measured, but the playbook has no such step", old)
	f(exitInconclusive, "documents no such fact (unknown: bloom.fullness)", old, "--verbose")
	f(exitInconclusive, "redis: timeout", old)
	f(exitUsage, "want one FILE")
	f(exitUsage, "no such file", "gone.json")
	f(exitUsage, "not a report", write(t, "no.json", "{}"))
	f(exitUsage, "not a report: line 2: findings.facts.value is of the wrong type: number 1e999", write(t, "no.json", strings.ReplaceAll(oldRecording, "0.5", "1e999")))
	f(exitUsage, "not a report: it is empty; want what run --record", write(t, "no.json", ""))
	f(exitUsage, "not a report: it breaks off; want", write(t, "no.json", oldRecording[:len(oldRecording)-3]))
	f(exitUsage, "not a report: line 2 is not JSON; want", write(t, "no.json", "{\n\x00"))
	f(exitUsage, "not a report: line 1: all of it is of the wrong type: array; want", write(t, "no.json", "[]"))
	f(exitUsage, `playbook "mine", which is not built in`, write(t, "mine.json", strings.Replace(oldRecording, "registration-path", "mine", 1)))
	f(exitUsage, "unknown playbook", old, "--playbook", "nope")
	f(exitUsage, "either by", old, "--playbook", "nope", "--playbook-file", "nope")
	f(exitUsage, "want text or json", old, "--output", "xml")
	f(exitUsage, "no such file", old, "--playbook-file", "nope")
	bad := filepath.Join(folder(t, builtinTexts(t, "bloom.fill_ratio > 0.5", "bloom.fil_ratio > 0.5")), "registration-path.yaml")
	f(exitUsage, "did you mean", old, "--playbook-file", bad)
	renamed := filepath.Join(folder(t, builtinTexts(t, "name: registration-path\n", "name: mine\n")), "registration-path.yaml")
	f(exitInconclusive, "Playbook mine", old, "--playbook-file", renamed)
}

// builtinTexts is the shipped playbook as written, by file, with old replaced by
// new everywhere.
func builtinTexts(t *testing.T, oldnew ...string) map[string]string {
	t.Helper()
	files, err := playbooks.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range append(files[0].Parts, files[0]) {
		texts[strings.TrimPrefix(f.Name, "builtin/")] = strings.NewReplacer(oldnew...).Replace(string(f.Data))
	}
	return texts
}

func TestRecordRefusesInTime(t *testing.T) {
	t.Parallel()
	code, _, stderr := diagnose(t, "run", "--checker", "http://127.0.0.1:9", "--record", filepath.Join(t.TempDir(), "no", "such", "folder.json"))
	if code != exitUsage || !strings.Contains(stderr, "record: ") {
		t.Errorf("got exit code %d and %q, want %d", code, stderr, exitUsage)
	}
}
