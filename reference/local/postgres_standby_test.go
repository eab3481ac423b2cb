package local

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestStandby has one shard followed, and then made a standby itself.
func TestStandby(t *testing.T) {
	t.Parallel()
	p, err := StartPostgres(t.Context(), PostgresOptions{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	mustExec(t, p.DSN(0), "CREATE TABLE mark (n int)")
	dsn, err := p.StartStandby(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, p.DSN(0), "INSERT INTO mark VALUES (7)")
	standby, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Close(context.WithoutCancel(t.Context())) })
	tick := time.NewTicker(pollEvery)
	t.Cleanup(tick.Stop)
	for n, deadline := 0, time.Now().Add(time.Minute); n != 7; <-tick.C {
		if err := standby.QueryRow(t.Context(), "SELECT n FROM mark").Scan(&n); n != 7 && time.Now().After(deadline) {
			t.Fatalf("the row never came: %v", err)
		}
	}
	readOnly := func(dsn string) {
		t.Helper()
		var refused *pgconn.PgError
		if err := exec1(t.Context(), dsn, "INSERT INTO mark VALUES (8)"); !errors.As(err, &refused) || refused.Code != "25006" {
			t.Errorf("a write gives %v, want SQLSTATE 25006", err)
		}
	}
	readOnly(dsn)
	if err := p.Demote(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	readOnly(p.DSN(0))
}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	p, err := StartPostgres(t.Context(), PostgresOptions{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	server, err := url.Parse(p.DSN(0))
	if err != nil {
		t.Fatal(err)
	}
	b, err := StartPgBouncer(t.Context(), server.Host, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	mustExec(t, b.DSN()+"&default_query_exec_mode=simple_protocol", "CREATE TABLE mark (n int)")
	mustExec(t, p.DSN(0), "INSERT INTO mark VALUES (1)") // it is there
	console, err := pgx.Connect(t.Context(), b.Console()+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = console.Close(context.WithoutCancel(t.Context())) })
	rows, err := console.Query(t.Context(), "SHOW POOLS")
	if err != nil {
		t.Fatal(err)
	}
	pools, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || len(pools) == 0 || pools[0]["database"] != "pgbouncer" && pools[0]["database"] != "postgres" {
		t.Errorf("SHOW POOLS: %v, %v", pools, err)
	}
	if _, err := StartPgBouncer(t.Context(), "nowhere", 1); err == nil {
		t.Error("a target without a port: got no error")
	}
}
