package main

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/local"
)

// runJSON runs `diagnose run` and returns the report, its exit code and how
// long the command took.
func runJSON(t *testing.T, config string) (playbooks.Report, int, time.Duration) {
	t.Helper()
	started := time.Now()
	code, stdout, stderr := diagnose(t, "run", "--config", config, "--output", "json")
	took := time.Since(started)
	var r playbooks.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("exit code %d, no report: %v\n%s\n%s", code, err, stdout, stderr)
	}
	return r, code, took
}

// frozen stops a process, with its children, until the returned func.
type frozen interface {
	Pause() error
	Resume() error
}

// shardOf freezes one shard.
type shardOf struct {
	*local.Postgres
	i int
}

func (s shardOf) Pause() error  { return s.Postgres.Pause(s.i) }
func (s shardOf) Resume() error { return s.Postgres.Resume(s.i) }

// TestHalfBlind freezes a back end before and in the middle of a run: the
// report leaves in time, says what could not be looked at, and is right about
// the rest.
func TestHalfBlind(t *testing.T) {
	redis, err := local.StartRedis(t.Context(), local.RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := local.StartPostgres(t.Context(), local.PostgresOptions{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := redis.Close(); err != nil {
			t.Error(err)
		}
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	path := startOn(t, redis, postgres)
	config := write(t, "diagnose.yml", targetYAML(t, path))

	// A machine that stood still for a moment leaves errors of new kinds, which are news for minutes.
	eventually(t, "the path is well before", 4*time.Minute, func() bool {
		r, code, _ := runJSON(t, config)
		t.Log(r.Verdict, r.Summary)
		return r.Verdict == playbooks.Healthy && code == exitHealthy
	})
	for _, c := range []struct {
		name, cause, gap string
		patient          frozen
		delay            time.Duration
	}{
		{"redis before", "redis-down", "redis", redis, 0},
		{"redis during", "redis-down", "redis", redis, time.Second},
		{"shard before", "shard-down", "shards", shardOf{postgres, 2}, 0},
		{"shard during", "shard-down", "shards", shardOf{postgres, 1}, time.Second},
	} {
		before := recorded(t, path)
		freeze := time.AfterFunc(c.delay, func() {
			if err := c.patient.Pause(); err != nil {
				t.Error(err)
			}
		})
		if c.delay == 0 {
			// Let the checker notice before the agent looks.
			eventually(t, "it is frozen and felt", 10*time.Second, func() bool { return recorded(t, path) > before+20 })
		}
		r, code, took := runJSON(t, config)
		freeze.Stop()
		if err := c.patient.Resume(); err != nil {
			t.Error(err)
		}
		if took > 15*time.Second {
			t.Errorf("%s: the report took %s, want it within the playbook's 15s", c.name, took)
		}
		gap := slices.ContainsFunc(r.Gaps, func(g playbooks.Gap) bool { return g.Step == c.gap })
		if !gap {
			t.Errorf("%s: no gap names step %s: %+v", c.name, c.gap, r.Gaps)
		}
		// What was seen before it froze may not be proof; a wrong cause is never right.
		right := verdictOf(r) == c.cause && code == exitCauseFound
		if undecided := r.Verdict == playbooks.Inconclusive && code == exitInconclusive; !right && (c.delay == 0 || !undecided) {
			t.Errorf("%s: got %s, %s (exit code %d), want %s", c.name, verdictOf(r), r.Summary, code, c.cause)
		}
		eventually(t, "the path is well again", 30*time.Second, func() bool {
			r, _, _ := runJSON(t, config)
			return len(r.Causes) == 0
		})
	}
}
