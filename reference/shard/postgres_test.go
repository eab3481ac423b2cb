package shard_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

func TestOpenPostgresHidesTheDSN(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, dsn := range []string{
		"postgres://app:hunter2@127.0.0.1:notaport/db",
		"postgres://app:hunter2/x@127.0.0.1/db",
		"postgres://app:hunter2%zz@127.0.0.1/db",
		"postgres://app:hunter2@127.0.0.1/db?sslmode=hunter2",
		"host=127.0.0.1 password=hunter2 port=x",
		"host=127.0.0.1 password='hunter2",
		"hunter2",
		"postgres://app:hunter2@127.0.0.1:1/db",
		"host=127.0.0.1 port=1 user=app password=hunter2",
	} {
		_, err := shard.OpenPostgres(t.Context(), dsn, shard.PostgresOptions{})
		if err == nil {
			t.Errorf("OpenPostgres(%q) gives no error", dsn)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("OpenPostgres(%q) shows the password: %v", dsn, err)
		}
	}
}

// checkRights opens a store as a role that may not create tables, before and after they exist. It has a database of its
// own: a store that others open in the same schema would make the tables.
func checkRights(t *testing.T, pg *local.Postgres) {
	connect := func(dsn string) (exec func(sql string), conn *pgx.Conn) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return func(sql string) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}, conn
	}
	create, _ := connect(pg.DSN(0))
	create("CREATE DATABASE rights")
	create("CREATE ROLE app LOGIN")
	u, err := url.Parse(pg.DSN(0))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/rights"
	own := u.String()
	exec, admin := connect(own)
	u.User = url.User("app")
	dsn := u.String()
	if _, err := shard.OpenPostgres(t.Context(), dsn, shard.PostgresOptions{}); err == nil {
		t.Fatal("a role without rights could create the tables")
	}

	owner, err := shard.OpenPostgres(t.Context(), own, shard.PostgresOptions{PoolSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close() })
	exec("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app")
	s, err := shard.OpenPostgres(t.Context(), dsn, shard.PostgresOptions{})
	if err != nil {
		t.Fatalf("a role that may read and write cannot open the tables that exist: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if won := mustClaim(t, s, shard.Row{Name: "love", UserID: 1, CreatedAt: epoch}); !won {
		t.Error("Claim lost")
	}

	if got, want := s.Address(), strings.TrimPrefix(own, "postgres://postgres@"); got == "" || !strings.HasPrefix(want, got+"/") {
		t.Errorf("Address = %q, want the host and port of %q", got, want)
	}
	if got := owner.Pool().Size; got != 3 {
		t.Errorf("pool size is %d, want 3", got)
	}
	var indexes, tables int
	err = admin.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT tablename) FROM pg_indexes
		WHERE schemaname = 'public' AND tablename LIKE 'names\___' AND indexdef LIKE 'CREATE UNIQUE INDEX%(username)'`).Scan(&indexes, &tables)
	if err != nil || indexes != shard.SubTables || tables != shard.SubTables {
		t.Errorf("%d unique indexes on %d tables (%v), want one on each of %d", indexes, tables, err, shard.SubTables)
	}
}

// checkSampleCost samples large tables and then reads them whole once, which the server must tell apart.
func checkSampleCost(t *testing.T, pg *local.Postgres) {
	open := func() shard.Store { return openPostgres(t, pg.DSN(0))(t, "cost", 2) }
	s := open()
	if _, err := s.Load(t.Context(), rows(80_000)); err != nil { // about 40 pages a table
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // sessions tell their statistics when they end
		t.Fatal(err)
	}
	scans := fullScans(t, pg, 2*shard.SubTables) // each of the two indexes of a table was built by a scan

	s = open()
	for range 3 {
		names, err := s.Sample(t.Context(), 250, time.Now())
		if err != nil || len(names) != 250 {
			t.Fatalf("Sample(250) of 80,000 = %d names, %v", len(names), err)
		}
	}
	if got := len(allNames(t, s)); got != 80_000 {
		t.Errorf("Names gives %d names, want 80,000", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fullScans(t, pg, scans+shard.SubTables) - scans; got != shard.SubTables {
		t.Errorf("%d tables were read from end to end, want the %d of Names and none of Sample", got, shard.SubTables)
	}
}

// fullScans is how often the tables of checkSampleCost were read from end to end, once it is at least so many times.
func fullScans(t *testing.T, pg *local.Postgres, least int) (scans int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.DSN(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	eventually(t, func() bool {
		err := conn.QueryRow(t.Context(), `SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_user_tables WHERE schemaname = 'cost'`).Scan(&scans)
		if err != nil {
			t.Fatal(err)
		}
		return scans >= least
	})
	return scans
}

// TestSickShard makes one of two real shards sick, in one way after the other.
func TestSickShard(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, 2)
	t.Run("Frozen", func(t *testing.T) { checkFrozen(t, pg) })
	t.Run("Stopped", func(t *testing.T) { checkStopped(t, pg) })
}

// checkFrozen freezes one of two shards under more calls than its pool has connections. All calls come back when their
// time is up, the figures tell what happened, the other shard does not notice, and all is well after the thaw.
func checkFrozen(t *testing.T, pg *local.Postgres) {
	const poolSize, callers, patience = 2, 6, 300 * time.Millisecond
	cluster := openCluster(t, pg, poolSize)
	sick, well := nameOn(cluster, 0), nameOn(cluster, 1)
	for _, name := range []string{sick, well} {
		if won, err := cluster.Claim(t.Context(), shard.Claim{Name: name, UserID: 1, At: epoch}); !won || err != nil {
			t.Fatalf("Claim = %t, %v", won, err)
		}
	}
	before := cluster.Stats()

	if err := pg.Pause(0); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			_, _, err := cluster.Lookup(ctx, sick)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(fmt.Sprint(err), "shard0: ") {
				t.Errorf("Lookup on a frozen shard: %v, want shard0 and DeadlineExceeded", err)
			}
			if took := time.Since(start); took > patience+2*time.Second {
				t.Errorf("Lookup on a frozen shard took %v, its time was up after %v", took, patience)
			}
		})
	}
	eventually(t, func() bool { return cluster.Stats()[0].Pool.Pending == callers-poolSize })
	if p := cluster.Stats()[0].Pool; p.InUse != poolSize || p.Idle != 0 {
		t.Errorf("the pool of the frozen shard is %+v, want %d in use, none idle", p, poolSize)
	}
	if _, found, err := cluster.Lookup(t.Context(), well); !found || err != nil {
		t.Errorf("Lookup on the other shard = %t, %v", found, err)
	}
	all.Wait()

	// The calls that follow have no connection to begin with.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, _, err := cluster.Lookup(ctx, sick); !errors.Is(err, shard.ErrNoConnection) {
		t.Errorf("Lookup without a connection to a frozen shard: %v, want ErrNoConnection", err)
	}

	after := cluster.Stats()
	if got := after[0].Errors - before[0].Errors; got != callers+1 {
		t.Errorf("%d errors were counted, want %d", got, callers+1)
	}
	if got := after[0].Requests - before[0].Requests; got != callers+1 {
		t.Errorf("%d requests were counted, want %d", got, callers+1)
	}
	if got := after[0].Pool.Timeouts - before[0].Pool.Timeouts; got < callers-poolSize+1 {
		t.Errorf("%d pool timeouts were counted, want %d or more", got, callers-poolSize+1)
	}
	if after[0].Pool.InUse != 0 || after[0].Pool.Pending != 0 {
		t.Errorf("after all calls came back the pool is %+v", after[0].Pool)
	}
	if after[1].Errors != 0 || after[1].Pool.Timeouts != 0 {
		t.Errorf("the other shard has %d errors, %d timeouts", after[1].Errors, after[1].Pool.Timeouts)
	}

	if err := pg.Resume(0); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, found, err := cluster.Lookup(ctx, sick)
		return found && err == nil
	})
}

// checkStopped stops a shard: calls fail at once, which is an error but not a wait for a connection.
func checkStopped(t *testing.T, pg *local.Postgres) {
	cluster := openCluster(t, pg, 2)
	name := nameOn(cluster, 0)
	if _, _, err := cluster.Lookup(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	pg.Stop(0)
	eventually(t, func() bool { // the idle connection fails first, as a look-up or as a ping
		_, _, err := cluster.Lookup(t.Context(), name)
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	if s := cluster.Stats()[0]; s.Errors == 0 || s.Pool.Timeouts != 0 {
		t.Errorf("a stopped shard counts %d errors and %d timeouts, want some and none", s.Errors, s.Pool.Timeouts)
	}
	if err := pg.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		_, _, err := cluster.Lookup(t.Context(), name)
		return err == nil
	})
}

func openCluster(t *testing.T, pg *local.Postgres, poolSize int) *shard.Cluster {
	t.Helper()
	stores := make([]shard.Store, pg.Len())
	for i := range stores {
		s, err := shard.OpenPostgres(t.Context(), pg.DSN(i), shard.PostgresOptions{PoolSize: poolSize})
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = s
	}
	cluster, err := shard.NewCluster(stores, shard.DefaultRoutingTable(len(stores)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	return cluster
}

// nameOn is a name that lives on shard i.
func nameOn(c *shard.Cluster, i int) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf("user%d", n); c.Owner(name) == i {
			return name
		}
	}
}
