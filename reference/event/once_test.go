package event_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // database/sql driver "pgx"
	_ "modernc.org/sqlite"             // database/sql driver "sqlite"

	"github.com/regpath/diagnose/reference/event"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

// TestSQL holds what keeps an event to one effect to its word, on both databases.
func TestSQL(t *testing.T) {
	t.Parallel()
	pg, err := local.StartPostgres(context.WithoutCancel(t.Context()), local.PostgresOptions{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	for driver, source := range map[string]string{
		"pgx":    pg.DSN(0),
		"sqlite": "file:" + filepath.Join(t.TempDir(), "h.db") + "?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_txlock=immediate",
	} {
		t.Run(driver, func(t *testing.T) {
			db, err := sql.Open(driver, source)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			t.Run("Once", func(t *testing.T) { checkOnce(t, db) })
			t.Run("Audit", func(t *testing.T) { checkAudit(t, db) })
			t.Run("Unexplained", func(t *testing.T) { checkUnexplained(t, db) })
		})
	}
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func checkOnce(t *testing.T, db *sql.DB) {
	for range 2 { // to create it again changes nothing
		if err := event.CreateOnce(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (n BIGINT)"); err != nil {
		t.Fatal(err)
	}
	effect := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)")
		return err
	}
	broken := errors.New("broken")
	e := event.Event{ID: 7, Shard: "shard0"}
	err := event.Once(t.Context(), db, "profile", e, func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(effect(ctx, tx), broken)
	})
	if !errors.Is(err, broken) || count(t, db, "SELECT count(*) FROM effects") != 0 {
		t.Fatalf("a failing handler left something, or error %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := event.Once(t.Context(), db, "profile", e, effect); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := count(t, db, "SELECT count(*) FROM effects"); got != 1 {
		t.Errorf("%d effects of one event, want 1", got)
	}
	for _, other := range []struct {
		handler string
		e       event.Event
	}{{"welcome", e}, {"profile", event.Event{ID: 7, Shard: "shard1"}}, {"profile", event.Event{ID: 8, Shard: "shard0"}}} {
		if err := event.Once(t.Context(), db, other.handler, other.e, effect); err != nil {
			t.Error(err)
		}
	}
	if got := count(t, db, "SELECT count(*) FROM effects"); got != 4 {
		t.Errorf("%d effects, want 4", got)
	}
}

// unexpected fails the test for every move that cannot be.
func unexpected(t *testing.T) func(error) { return func(err error) { t.Errorf("reported: %v", err) } }

// checkUnexplained lets names change behind the service: the next event of each tells.
func checkUnexplained(t *testing.T, db *sql.DB) {
	ways := map[string]func(context.Context, *event.Audit, []event.Event) error{
		"one by one": func(ctx context.Context, a *event.Audit, events []event.Event) error {
			for _, e := range events {
				if err := a.Handle(ctx, e); err != nil {
					return err
				}
			}
			return nil
		},
		"all at once": func(ctx context.Context, a *event.Audit, events []event.Event) error { return a.HandleAll(ctx, events) },
	}
	for way, handle := range ways {
		t.Run(way, func(t *testing.T) {
			var reported []string
			audit, err := event.NewAudit(t.Context(), db, func(err error) {
				if !errors.Is(err, event.ErrUnexplained) {
					t.Errorf("reported %v, want %v", err, event.ErrUnexplained)
				}
				reported = append(reported, err.Error())
			})
			if err != nil {
				t.Fatal(err)
			}
			id, began := int64(100), time.Unix(1000, 0)
			var turns [][]event.Event // the first event of each name, the second of each, and so on
			happened := map[string]int{}
			happens := func(name string, after time.Duration, kinds ...string) {
				for _, kind := range kinds {
					id++
					turn := happened[name]
					happened[name]++
					if turn == len(turns) {
						turns = append(turns, nil)
					}
					turns[turn] = append(turns[turn], event.Event{ID: id, Shard: "shard of " + way, Type: "USERNAME_" + kind, Name: name + way, UserID: 1, At: began.Add(after)})
				}
			}
			all := func() {
				t.Helper()
				for range 2 { // at least once
					if err := handle(t.Context(), audit, slices.Concat(turns...)); err != nil {
						t.Fatal(err)
					}
				}
				turns, happened = nil, map[string]int{}
			}
			happens("well", 0, "CLAIMED", "LOCKED", "RELEASED", "AVAILABLE", "CLAIMED", "RELEASED", "AVAILABLE")
			happens("loaded", 0, "RELEASED", "AVAILABLE")
			happens("late", time.Second, "RELEASED") // its bucket has moved: the event before comes from elsewhere, and later
			happens("late", 0, "CLAIMED")
			happens("late", 2*time.Second, "AVAILABLE", "BLESSED", "CLAIMED")
			all()
			if len(reported) > 0 {
				t.Errorf("reported %q, want nothing", reported)
			}
			happens("freed", 0, "CLAIMED", "AVAILABLE", "CLAIMED")
			happens("loaded and freed", 0, "AVAILABLE")
			happens("deleted", 0, "CLAIMED", "CLAIMED")
			all()
			slices.Sort(reported)
			want := []string{
				"a name's state was changed behind the service: USERNAME_AVAILABLE follows USERNAME_CLAIMED",
				"a name's state was changed behind the service: USERNAME_AVAILABLE follows no event",
				"a name's state was changed behind the service: USERNAME_CLAIMED follows USERNAME_CLAIMED",
			}
			if !slices.Equal(reported, want) || audit.Unexplained() != 3 {
				t.Errorf("reported %q, %d in all, want %q", reported, audit.Unexplained(), want)
			}
			if rows := count(t, db, "SELECT count(*) FROM audit WHERE shard = 'shard of "+way+"'"); rows != 20 {
				t.Errorf("%d rows, want one for each of 20 events", rows)
			}
		})
	}
}

func checkAudit(t *testing.T, db *sql.DB) {
	audit, err := event.NewAudit(t.Context(), db, unexpected(t))
	if err != nil {
		t.Fatal(err)
	}
	e := event.Event{ID: 1, Shard: "shard0", Type: event.NameClaimed, Name: "'; DROP TABLE audit; --爱", UserID: 1 << 62, At: time.Unix(1, 234567000).UTC()}
	for range 3 {
		if err := audit.Handle(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	var got event.Event
	var micros int64
	row := db.QueryRowContext(t.Context(), "SELECT shard, id, type, username, user_id, at_micros FROM audit")
	if err := row.Scan(&got.Shard, &got.ID, &got.Type, &got.Name, &got.UserID, &micros); err != nil {
		t.Fatal(err)
	}
	got.At = time.UnixMicro(micros).UTC()
	if n := count(t, db, "SELECT count(*) FROM audit"); got != e || n != 1 {
		t.Errorf("row %+v of %d, want one with %+v", got, n, e)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := audit.Handle(ended, e); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// TestStore goes the whole way: names claimed in a shard's database, audited and in a filter.
func TestStore(t *testing.T) {
	t.Parallel()
	store, err := shard.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "s.db"), shard.SQLiteOptions{PoolSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b := newBench(t, false, 0)
	b.sources = []event.Source{{Name: "shard0", Outbox: store}}
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	audit, err := event.NewAudit(t.Context(), db, unexpected(t))
	if err != nil {
		t.Fatal(err)
	}
	relay, _ := b.relay(nil, "audit")
	var filter sync.Map
	b.consumer("audit", "c", audit.Handle, nil)
	b.consumer("bloom-1", "c", event.FeedFilter(func(n string) { filter.Store(n, true) }), nil)
	eventually(t, "both groups", func() bool { return len(b.client.XInfoGroups(t.Context(), "events:{shard0}").Val()) == 2 })
	for i, n := range []string{"love", "baby", "love"} {
		won, err := store.Claim(t.Context(), shard.Claim{Name: n, UserID: int64(i + 1), At: time.Now()})
		if err != nil || won != (i < 2) {
			t.Fatalf("claim %d: %v, %v", i, won, err)
		}
		relay.Wake(0)
	}
	eventually(t, "an empty outbox", func() bool {
		events, err := store.Outbox(t.Context(), 10)
		return err == nil && len(events) == 0
	})
	if got := count(t, db, "SELECT count(*) FROM audit WHERE username IN ('love', 'baby') AND shard = 'shard0'"); got != 2 {
		t.Errorf("%d rows of audit, want 2", got)
	}
	for _, n := range []string{"love", "baby"} {
		if _, ok := filter.Load(n); !ok {
			t.Errorf("%s is not in the filter", n)
		}
	}
}

// TestAuditUnavailable makes events wait for a database that is away.
func TestAuditUnavailable(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	audit, err := event.NewAudit(t.Context(), db, unexpected(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, false, 1)
	b.relay(nil, "audit")
	c, _ := b.consumer("audit", "c", audit.Handle, func(o *event.ConsumerOptions) { o.Tries = 1 })
	b.boxes[0].commit("love")
	eventually(t, "several tries", func() bool { return c.Stats().Failed > 3 })
	if s := c.Stats(); s.Dead > 0 || b.boxes[0].unpublished() != 1 || !strings.Contains(b.failed.all()[0].Error(), "audit") {
		t.Errorf("stats %+v, failures %v, want an event that waits", s, b.failed.all())
	}
}
