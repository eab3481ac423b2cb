package local

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p, err := StartPostgres(t.Context(), PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	t.Logf("4 shards are up after %v", time.Since(start).Round(time.Millisecond))
	if p.Len() != 4 {
		t.Fatalf("%d shards, want 4", p.Len())
	}
	for i := range p.Len() {
		mustExec(t, p.DSN(i), "CREATE TABLE mark (shard int)")
	}

	// Each of these makes shard 1 fall silent, on its own.
	open, err := pgx.Connect(t.Context(), p.DSN(1))
	if err != nil {
		t.Fatal(err)
	}
	dsn := p.DSN(1)
	f := func(what string, fall, rise func() error, want error) {
		t.Helper()
		if err := fall(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := exec1(t.Context(), dsn, "SELECT 1"); !errors.Is(err, want) {
			t.Errorf("%s: a query to shard 1 gives %v, want %v", what, err, want)
		}
		for _, i := range []int{0, 2, 3} {
			if err := exec1(t.Context(), p.DSN(i), "SELECT 1"); err != nil {
				t.Errorf("%s of shard 1: a query to shard %d gives %v", what, i, err)
			}
		}
		if err := rise(); err != nil {
			t.Fatalf("after %s: %v", what, err)
		}
		if p.DSN(1) != dsn {
			t.Errorf("after %s the DSN is %s, it was %s", what, p.DSN(1), dsn)
		}
		mustExec(t, dsn, "INSERT INTO mark VALUES (1)")
	}
	restart := func() error { return p.Restart(t.Context(), 1) }
	f("Pause", func() error {
		if err := p.Pause(1); err != nil {
			return err
		}
		// The session that was open before is frozen too.
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := open.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a session of a paused shard answers: %v", err)
		}
		return nil
	}, func() error { return p.Resume(1) }, context.DeadlineExceeded)
	f("Stop", func() error { p.Stop(1); return nil }, restart, syscall.ECONNREFUSED)
	f("Stop while paused", func() error {
		err := p.Pause(1)
		p.Stop(1)
		return err
	}, restart, syscall.ECONNREFUSED)
	f("kill -9", func() error {
		pid := p.Pid(1)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		eventually(t, "the postmaster is gone", func() bool { return p.Pid(1) == 0 })
		return nil
	}, restart, syscall.ECONNREFUSED)

	// Nothing that was committed is lost.
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	var marks int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM mark").Scan(&marks); err != nil || marks != 4 {
		t.Errorf("%d of 4 rows are left, %v", marks, err)
	}
	_ = conn.Close(t.Context())

	p.Stop(2)
	if err := p.Pause(2); err == nil || p.Pid(2) != 0 {
		t.Errorf("a stopped shard can be paused: %v, pid %d", err, p.Pid(2))
	}
	if err := p.Pause(3); err != nil { // Close must not wait for it
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if exists(p.folder.path) {
		t.Errorf("Close left %s", p.folder.path)
	}
	for i := range p.Len() {
		if !refuses(t, p.shards[i].addr) {
			t.Errorf("shard %d takes connections after Close", i)
		}
	}
	if err := p.Restart(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Restart after Close: %v, want ErrClosed", err)
	}
}

// TestPostgresThatCannotStart breaks the data of a shard and wants to be told why it does not start.
func TestPostgresThatCannotStart(t *testing.T) {
	t.Parallel()
	p, err := StartPostgres(t.Context(), PostgresOptions{Shards: 1, Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	var fsync string
	conn, err := pgx.Connect(t.Context(), p.DSN(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), "SHOW fsync").Scan(&fsync); err != nil || fsync != "on" {
		t.Errorf("fsync of a durable server is %q, %v", fsync, err)
	}
	_ = conn.Close(t.Context())
	mustExec(t, p.DSN(0), "ALTER SYSTEM SET max_connections = 1")
	err = p.Restart(t.Context(), 0)
	if !errors.Is(err, errExited) || !strings.Contains(err.Error(), "max_connections") {
		t.Errorf("Restart with bad settings: %v, want errExited and the reason", err)
	}
	if p.Pid(0) != 0 {
		t.Error("a server that did not start has a process")
	}
}

func exec1(ctx context.Context, dsn, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

func mustExec(t *testing.T, dsn, sql string) {
	t.Helper()
	if err := exec1(t.Context(), dsn, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
