package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestRegistrations runs a small campaign, with all that dies in it.
func TestRegistrations(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "checker")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../checker").CombinedOutput(); err != nil {
		t.Fatalf("build the checker: %v: %s", err, out)
	}
	r := registrations{
		checker: binary, names: 1500, workers: 32, instances: 3, races: 0.1, seed: 1,
		redisDown: 300 * time.Millisecond, catchUp: time.Minute, limit: 2 * time.Minute,
	}
	var out strings.Builder
	if err := r.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := regexp.MustCompile(`^names=1500 acknowledged=1[45]\d\d unacknowledged=\d+ raced=[1-9]\d* .* said_free=0 owners_wrong=0 events_wrong=0 filter_missing=0 filters_converged_seconds=\d+\.\d instances=3 killed=1 redis_killed=1 `)
	if got := lines[len(lines)-1]; !want.MatchString(got) {
		t.Errorf("closing line = %q, want what matches %s", got, want)
	}
}
