package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/webhook"
)

// TestMarksAtOnce: people press the buttons of one report at the same moment, and each
// agent hears of some of them; no mark is lost.
func TestMarksAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		markAtOnce(t, openMarks(t, filepath.Join(t.TempDir(), "diagnose.db")))
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		// The agents end before it, and after the test's context.
		postgres, err := local.StartPostgres(context.WithoutCancel(t.Context()), local.PostgresOptions{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := postgres.Close(); err != nil {
				t.Error(err)
			}
		})
		markAtOnce(t, openMarks(t, postgres.DSN(0)), openMarks(t, postgres.DSN(0)))
	})
}

// openMarks opens the inbox of an agent that does no work.
func openMarks(t *testing.T, store string) *webhook.Inbox {
	t.Helper()
	in, err := webhook.Open(t.Context(), store, webhook.Options{Worker: &line{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return in
}

// markAtOnce has many users mark one incident of the agents.
func markAtOnce(t *testing.T, agents ...*webhook.Inbox) {
	t.Helper()
	outcomes, err := agents[0].Store(t.Context(), webhook.Message{GroupKey: "g", Alerts: []playbooks.Alert{{Fingerprint: "a", Firing: true, StartsAt: time.Now()}}})
	if err != nil || len(outcomes) != 1 {
		t.Fatalf("store: got %v, %v, want one incident", outcomes, err)
	}
	id := outcomes[0].Incident
	const users = 20
	var wg sync.WaitGroup
	for i := range users {
		wg.Go(func() {
			if err := addMark(t.Context(), agents[i%len(agents)], id, fmt.Sprint("U", i), markRight); err != nil {
				t.Errorf("addMark: %v", err)
			}
		})
	}
	wg.Wait()
	marks, err := recall[map[string]mark](t.Context(), agents[0].Memo(id), memoMarks)
	if err != nil || len(*marks) != users {
		t.Errorf("got %d marks, %v, want %d", len(*marks), err, users)
	}
}
