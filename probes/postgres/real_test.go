package postgres_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/postgres"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

func connect(t *testing.T, addr, user, more string) *pgx.Conn {
	t.Helper()
	var conn *pgx.Conn
	probetest.Eventually(t, "the server takes sessions", func() (ok bool) {
		var err error
		conn, err = pgx.Connect(t.Context(), fmt.Sprintf("postgres://%s@%s/postgres?%s", user, addr, more))
		return err == nil
	})
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// eye is the agent's own connection as a role.
func eye(t *testing.T, addr, user string, console bool) *source.Postgres {
	t.Helper()
	database := "postgres"
	if console {
		database = "pgbouncer"
	}
	db, err := source.NewPostgres(source.PostgresOptions{
		Name: "shard0", DSN: source.Secret(fmt.Sprintf("postgres://%s@%s/%s", user, addr, database)), Console: console, Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.WithoutCancel(t.Context())) })
	return db
}

func measure(t *testing.T, api *source.HTTP, dbs, consoles []*source.Postgres) probes.Evidence {
	t.Helper()
	k := postgres.Kind(api, dbs, consoles)
	p, err := k.New(func(o any) error {
		o.(*postgres.Options).Window = source.MinWindow
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	probetest.Valid(t, k.Facts, ev, err)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// TestRealServer runs in order: the parts share a server, and the last freezes it.
func TestRealServer(t *testing.T) {
	t.Parallel()
	server := probetest.Postgres(t)
	admin := connect(t, server.Addr, "postgres", "application_name=admin")
	exec(t, admin,
		"CREATE TABLE names_00 (username text PRIMARY KEY, user_id bigint GENERATED ALWAYS AS IDENTITY)",
		"CREATE TABLE names_01 (username text PRIMARY KEY)",
		"CREATE TABLE routing (version bigint)", "INSERT INTO routing VALUES (3)",
		"INSERT INTO names_00 SELECT 'name' || i FROM generate_series(1, 5000) AS i", "ANALYZE",
		// The least that the README asks for.
		"CREATE ROLE diagnose LOGIN IN ROLE pg_monitor CONNECTION LIMIT 2",
		"CREATE ROLE nobody LOGIN")
	least := eye(t, server.Addr, "diagnose", false)
	dbs := []*source.Postgres{least}
	var asked atomic.Int64
	checker := probetest.NewChecker(t, nil)
	checker.Serve(source.PathRoute, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		probetest.JSON(`{"version":3,"shards":[`+strings.TrimSuffix(strings.Repeat(`"shard0",`, 8), ",")+`]}`)(w, r)
	})
	api := checker.Source(t)

	t.Run("the least role", func(t *testing.T) {
		ev := measure(t, api, dbs, nil)
		for name, want := range map[string]float64{
			"shards_asked": 1, "sessions": 2, "sessions_limit": 97, "lock_waiters": 0, "idle_transactions": 0, "slow_statements": 0, "read_only": 0,
			"replicas": 0, "replay_lag_seconds": 0, "unindexed_tables": 0, "failed_inserts_rate": 0, "rollbacks_rate": 0, "table_scans": 0,
		} {
			probetest.Want(t, ev, name, want)
		}
		probetest.WantAbsent(t, ev, "names_misplaced", "GRANT SELECT")
		if asked.Load() != 0 {
			t.Error("the service was asked about names although there are none")
		}
		// Three at each end, the sample of names is not allowed, and the start of the session.
		if ev.Cost.Queries != 7 {
			t.Errorf("%d queries, want 7", ev.Cost.Queries)
		}
	})

	t.Run("a role that may read names", func(t *testing.T) {
		exec(t, admin, "GRANT SELECT ON names_00, names_01, routing TO diagnose")
		var ev probes.Evidence
		probetest.Eventually(t, "a sample of four pages or so hits one", func() bool {
			ev = measure(t, api, dbs, nil)
			_, ok := probetest.Value(ev, "names_routed")
			return ok
		})
		for name, want := range map[string]float64{"names_routed": 8, "names_misplaced": 0, "routing_differs": 0} {
			probetest.Want(t, ev, name, want)
		}
	})

	t.Run("a role that is set read-only itself", func(t *testing.T) {
		exec(t, admin, "CREATE ROLE careful LOGIN IN ROLE pg_monitor", "ALTER ROLE careful SET default_transaction_read_only = on")
		ev := measure(t, nil, []*source.Postgres{eye(t, server.Addr, "careful", false)}, nil)
		probetest.WantMissing(t, ev, "read_only", "hides that of others")
	})

	t.Run("a role without rights", func(t *testing.T) {
		ev := measure(t, nil, []*source.Postgres{eye(t, server.Addr, "nobody", false)}, nil)
		for _, name := range []string{"lock_waiters", "sessions_ratio", "idle_transactions", "slow_statements"} {
			probetest.WantMissing(t, ev, name, "GRANT pg_monitor")
		}
		probetest.Want(t, ev, "read_only", 0)
	})

	t.Run("a name for each of many clients", func(t *testing.T) {
		var conns []*pgx.Conn
		for i := range 65 {
			conns = append(conns, connect(t, server.Addr, "postgres", fmt.Sprintf("application_name=pod-%d", max(i, 2))))
		}
		ev := measure(t, nil, []*source.Postgres{least}, nil)
		probetest.Want(t, ev, "sessions", 67)
		probetest.Want(t, ev, "top_client_share", 3.0/67)
		for _, conn := range conns {
			_ = conn.Close(context.WithoutCancel(t.Context()))
		}
	})

	for _, c := range []struct{ what, hold, client, release string }{
		{"a held transaction", "SELECT 1", "holder", "ROLLBACK"},
		{"a prepared transaction", "PREPARE TRANSACTION 'left'", "(a prepared transaction)", "ROLLBACK PREPARED 'left'"},
	} {
		t.Run(c.what, func(t *testing.T) {
			holder, waiter := connect(t, server.Addr, "postgres", "application_name=holder"), connect(t, server.Addr, "postgres", "application_name=app")
			exec(t, holder, "BEGIN", "INSERT INTO names_01 VALUES ('hot')", c.hold)
			done := make(chan error, 1)
			go func() {
				_, err := waiter.Exec(context.WithoutCancel(t.Context()), "INSERT INTO names_01 VALUES ('hot') ON CONFLICT DO NOTHING")
				done <- err
			}()
			waiting := 0
			probetest.Eventually(t, "the other waits", func() bool {
				err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").Scan(&waiting)
				return err == nil && waiting == 1
			})
			ev := measure(t, nil, dbs, nil)
			for name, want := range map[string]float64{"lock_waiters": 1, "shards_locked": 1, "blocker_idle": 1} {
				probetest.Want(t, ev, name, want)
			}
			if v, ok := probetest.Value(ev, "blocker_seconds"); !ok || v < source.MinWindow.Seconds() {
				t.Errorf("blocker_seconds: got %v, want the window at least", v)
			}
			if !strings.Contains(fmt.Sprint(ev.Rows), "{blockers "+c.client+" 1 ") {
				t.Errorf("rows: %v", ev.Rows)
			}
			exec(t, holder, c.release)
			if err := <-done; err != nil {
				t.Error(err)
			}
			exec(t, admin, "DELETE FROM names_01")
		})
	}

	t.Run("what others do", func(t *testing.T) {
		exec(t, admin, "CREATE DATABASE other", "CREATE ROLE app LOGIN", "CREATE ROLE backup LOGIN SUPERUSER")
		elsewhere := func() *pgx.Conn {
			c, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://postgres@%s/other?application_name=elsewhere", server.Addr))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
			return c
		}
		holder, waiter := elsewhere(), elsewhere()
		exec(t, holder, "CREATE TABLE x (i int)", "BEGIN", "LOCK TABLE x")
		var pool []*pgx.Conn
		for range 4 {
			pool = append(pool, connect(t, server.Addr, "app", "application_name=app"))
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		busy := func(c *pgx.Conn, statement string) {
			wg.Go(func() { _, _ = c.Exec(ctx, statement) })
		}
		t.Cleanup(wg.Wait)
		t.Cleanup(stop)
		busy(waiter, "SELECT FROM x")
		busy(connect(t, server.Addr, "backup", "application_name=nightly"), "SELECT pg_sleep(60)")
		busy(connect(t, server.Addr, "app", "application_name=pg_dump"), "SELECT pg_sleep(60)")
		running := func(want int) {
			t.Helper()
			probetest.Eventually(t, "they run for a second", func() bool {
				n := 0
				err := admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE state = 'active'
					AND pid <> pg_backend_pid() AND now() - query_start > interval '1 s'`).Scan(&n)
				return err == nil && n == want
			})
		}
		running(3)
		ev := measure(t, nil, dbs, nil)
		for name, want := range map[string]float64{
			"sessions": 10, "lock_waiters": 0, "idle_transactions": 0, "slow_statements": 0, "busy_sessions": 0,
		} {
			probetest.Want(t, ev, name, want)
		}
		busy(pool[0], "SELECT pg_sleep(60)")
		running(4)
		probetest.Want(t, measure(t, nil, dbs, nil), "slow_statements", 1)
		// So do settings: of a role that only reads nothing follows for the service.
		for statement, want := range map[string]float64{
			"ALTER ROLE backup %s": 0, "ALTER ROLE app IN DATABASE other %s": 0, "ALTER ROLE app %s": 1, "ALTER DATABASE postgres %s": 1,
		} {
			exec(t, admin, fmt.Sprintf(statement, "SET default_transaction_read_only = on"))
			if got, ok := probetest.Value(measure(t, nil, dbs, nil), "read_only"); !ok || got != want {
				t.Errorf("%s: read_only is %v, %v, want %v", statement, got, ok, want)
			}
			exec(t, admin, fmt.Sprintf(statement, "RESET ALL"))
		}
		stop()
		wg.Wait()
		for _, c := range append(pool, holder, waiter) {
			_ = c.Close(t.Context())
		}
	})

	t.Run("indexes", func(t *testing.T) {
		exec(t, admin, "CREATE TABLE names_02 (id bigint PRIMARY KEY, username text, UNIQUE (id, username))")
		f := func(want float64, statement string) {
			t.Helper()
			exec(t, admin, statement)
			if got, ok := probetest.Value(measure(t, nil, dbs, nil), "unindexed_tables"); !ok || got != want {
				t.Errorf("%s: unindexed_tables is %v, %v, want %v", statement, got, ok, want)
			}
		}
		f(1, "CREATE INDEX ON names_02 (username)")
		f(0, "CREATE UNIQUE INDEX by_name ON names_02 (lower(username))")
		f(1, "DROP INDEX by_name")
		f(0, "ALTER TABLE names_02 ADD UNIQUE (username)")
		exec(t, admin, "ALTER TABLE names_02 DROP COLUMN username")
		probetest.WantMissing(t, measure(t, nil, dbs, nil), "unindexed_tables", "names_02 has no such column")
		exec(t, admin, "DROP TABLE names_02")
	})

	t.Run("conflicts and scans", func(t *testing.T) {
		stop, done := make(chan struct{}), make(chan struct{})
		app := connect(t, server.Addr, "postgres", "application_name=app")
		exec(t, app, "SET enable_indexscan = off", "SET enable_bitmapscan = off", "SET enable_indexonlyscan = off")
		go func() {
			defer close(done)
			for ctx := context.WithoutCancel(t.Context()); ; {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = app.Exec(ctx, "INSERT INTO names_00 VALUES ('name1')") // 23505
				_, _ = app.Exec(ctx, "SELECT FROM names_00 WHERE username = 'name7'")
				_, _ = app.Exec(ctx, "SELECT pg_stat_force_next_flush()")
			}
		}()
		probetest.Eventually(t, "both are seen", func() bool {
			ev := measure(t, nil, dbs, nil)
			failed, _ := probetest.Value(ev, "failed_inserts_rate")
			rolled, _ := probetest.Value(ev, "rollbacks_rate")
			scans, _ := probetest.Value(ev, "table_scans")
			rows, _ := probetest.Value(ev, "table_scan_rows")
			return failed >= 1 && rolled >= 1 && scans >= 1 && rows >= 4999
		})
		close(stop)
		<-done
	})

	t.Run("a server set read-only", func(t *testing.T) {
		exec(t, admin, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
		probetest.Eventually(t, "it is seen, although the agent's own sessions always are", func() bool {
			v, ok := probetest.Value(measure(t, nil, dbs, nil), "read_only")
			return ok && v == 1
		})
	})

	t.Run("a server that hangs", func(t *testing.T) {
		quick, err := source.NewPostgres(source.PostgresOptions{
			Name: "shard0", DSN: source.Secret("postgres://diagnose@" + server.Addr + "/postgres"), Timeout: 500 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { quick.Close(context.WithoutCancel(t.Context())) })
		server.Stop(t)
		ev := measure(t, nil, []*source.Postgres{quick}, nil)
		server.Continue(t)
		probetest.Want(t, ev, "shards_asked", 0)
		probetest.WantMissing(t, ev, "lock_waiters", "no answer within")
	})
}

func TestRealPgBouncer(t *testing.T) {
	t.Parallel()
	server := probetest.Postgres(t)
	connect(t, server.Addr, "postgres", "")
	bouncer := probetest.PgBouncer(t, server.Addr, 1)
	const plain = "default_query_exec_mode=simple_protocol"
	first, second := connect(t, bouncer.Addr, "postgres", plain), connect(t, bouncer.Addr, "postgres", plain)
	console := []*source.Postgres{eye(t, bouncer.Addr, "postgres", true)}
	if err := console[0].Open(t.Context()); err != nil {
		t.Fatalf("the console: %v", err)
	}
	ev := measure(t, nil, nil, console)
	for name, want := range map[string]float64{"bouncers_configured": 1, "bouncer_waiting": 0, "bouncer_wait_seconds": 0} {
		probetest.Want(t, ev, name, want)
	}

	exec(t, first, "BEGIN") // takes the only server connection
	done := make(chan error, 1)
	go func() {
		_, err := second.Exec(context.WithoutCancel(t.Context()), "SELECT 1")
		done <- err
	}()
	probetest.Eventually(t, "the second client waits in both samples", func() bool {
		ev := measure(t, nil, nil, console)
		n, _ := probetest.Value(ev, "bouncer_waiting")
		wait, _ := probetest.Value(ev, "bouncer_wait_seconds")
		servers, _ := probetest.Value(ev, "bouncer_servers")
		return n == 1 && wait > 0 && servers == 1
	})
	exec(t, first, "COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
}
