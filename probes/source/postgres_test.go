package source_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

func dsn(addr, more string) source.Secret {
	return source.Secret(fmt.Sprintf("postgres://postgres@%s/postgres?%s", addr, more))
}

func openPostgres(t *testing.T, o source.PostgresOptions) *source.Postgres {
	t.Helper()
	p, err := source.NewPostgres(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.WithoutCancel(t.Context())) })
	return p
}

func admin(t *testing.T, addr string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), string(dsn(addr, "application_name=test")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// ready waits until the server takes sessions: it listens a little earlier.
func ready(t *testing.T, addr string) {
	t.Helper()
	probetest.Eventually(t, "postgres takes sessions", func() bool {
		conn, err := pgx.Connect(t.Context(), string(dsn(addr, "")))
		return err == nil && conn.Close(t.Context()) == nil
	})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := probetest.Postgres(t, "-c", "max_connections=8", "-c", "superuser_reserved_connections=1")
	ready(t, server.Addr)
	other := admin(t, server.Addr)
	sessions := func(t *testing.T) (n int) {
		t.Helper()
		err := other.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = 'diagnose'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	// In order: they share a server, and the last ones freeze and kill it.
	p := openPostgres(t, source.PostgresOptions{Name: "shard0", DSN: dsn(server.Addr, ""), Timeout: 500 * time.Millisecond})
	cost := new(probes.Cost)
	for range 3 {
		if took, err := p.Ping(t.Context(), cost); err != nil || took <= 0 {
			t.Fatalf("ping: got %v, %v", took, err)
		}
	}
	if cost.Queries != 4 || cost.Bytes == 0 {
		t.Errorf("cost: got %+v, want the start of the session, 3 queries and some bytes", *cost)
	}
	if n := sessions(t); n != 1 {
		t.Errorf("sessions of the agent: got %d, want 1", n)
	}

	t.Run("answers by column", func(t *testing.T) {
		rows, err := p.Query(t.Context(), cost, "columns", "SELECT 1.5 AS a, -2 AS b, true AS c, NULL AS d, 'x' AS e UNION ALL SELECT 3, 4, false, '', 'y' ORDER BY 1")
		if err != nil || len(rows) != 2 {
			t.Fatalf("got %v, %v", rows, err)
		}
		r := rows[0]
		if r.Number("a").Or(0) != 1.5 || r.Number("b").Or(0) != -2 || !r.Is("c") || rows[1].Is("c") || r.Text("e") != "x" {
			t.Errorf("got %v", r)
		}
		for _, unknown := range []string{"d", "e", "nothing"} {
			if n := r.Number(unknown); n.Why() == "" || !strings.HasPrefix(n.Why(), unknown+" ") {
				t.Errorf("%s: got %v, want it unknown", unknown, n)
			}
		}
	})

	t.Run("cannot write, and goes on after an error", func(t *testing.T) {
		for statement, want := range map[string]error{"CREATE TABLE t ()": source.ErrAnswered, "SELECT nothing": source.ErrAnswered} {
			if _, err := p.Query(t.Context(), cost, "attempt", statement); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "attempt: SQLSTATE ") {
				t.Errorf("%s: got %v, want %v", statement, err, want)
			}
		}
		rows, err := p.Query(t.Context(), cost, "setting", "SELECT setting, reset_val FROM pg_settings WHERE name = 'default_transaction_read_only'")
		if err != nil || len(rows) != 1 || rows[0].Text("setting") != "on" || rows[0].Text("reset_val") != "off" {
			t.Errorf("got %v, %v, want on for the agent and off for everybody else", rows, err)
		}
		if n := sessions(t); n != 1 {
			t.Errorf("sessions of the agent: got %d, want the same one", n)
		}
	})

	t.Run("a closed session is replaced once", func(t *testing.T) {
		_, err := other.Exec(t.Context(), "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'diagnose'")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Ping(t.Context(), new(probes.Cost)); err != nil {
			t.Errorf("ping: %v", err)
		}
		if n := sessions(t); n != 1 {
			t.Errorf("sessions of the agent: got %d, want 1", n)
		}
	})

	t.Run("denied", func(t *testing.T) {
		q := openPostgres(t, source.PostgresOptions{Name: "shard0", DSN: source.Secret("postgres://nobody:hunter2@" + server.Addr + "/postgres")})
		_, err := q.Ping(t.Context(), new(probes.Cost))
		if !errors.Is(err, source.ErrDenied) {
			t.Errorf("got %v, want ErrDenied", err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error holds the password: %v", err)
		}
	})

	t.Run("out of slots", func(t *testing.T) {
		if _, err := other.Exec(t.Context(), "create role plain login"); err != nil {
			t.Fatal(err)
		}
		plain := source.Secret("postgres://plain@" + server.Addr + "/postgres")
		held := 0
		for ; ; held++ {
			conn, err := pgx.Connect(t.Context(), string(plain))
			if err != nil {
				break
			}
			defer func() { _ = conn.Close(t.Context()) }()
		}
		late := openPostgres(t, source.PostgresOptions{Name: "shard0", DSN: plain})
		if _, err := late.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrRefused) || !strings.Contains(err.Error(), "53300") {
			t.Errorf("with %d sessions held: got %v, want ErrRefused with SQLSTATE 53300", held, err)
		}
		if _, err := p.Ping(t.Context(), new(probes.Cost)); err != nil {
			t.Errorf("the session opened before the incident: %v", err)
		}
	})

	t.Run("hung", func(t *testing.T) {
		server.Stop(t)
		if _, err := p.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrHung) {
			t.Errorf("the kept session: got %v, want ErrHung", err)
		}
		q := openPostgres(t, source.PostgresOptions{Name: "shard0", DSN: dsn(server.Addr, ""), Timeout: 300 * time.Millisecond})
		start := time.Now()
		if _, err := q.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrHung) {
			t.Errorf("got %v, want ErrHung", err)
		}
		if took := time.Since(start); took > 900*time.Millisecond {
			t.Errorf("took %v, want one timeout", took)
		}
		cost := new(probes.Cost)
		if _, err := q.Ping(t.Context(), cost); !errors.Is(err, source.ErrHung) || *cost != (probes.Cost{}) {
			t.Errorf("second call: got %v at a cost of %+v, want the circuit's reason for nothing", err, *cost)
		}
		server.Continue(t)
	})

	t.Run("killed", func(t *testing.T) {
		server.Kill(t)
		probetest.Eventually(t, "the shard is refused", func() bool {
			_, err := p.Ping(t.Context(), new(probes.Cost))
			return errors.Is(err, source.ErrRefused)
		})
	})
}

func TestPostgresSession(t *testing.T) {
	t.Parallel()
	got := startupParameters(t)
	for key, value := range map[string]string{
		"application_name":  "diagnose",
		"statement_timeout": "2000", "lock_timeout": "200", "idle_in_transaction_session_timeout": "5000",
	} {
		if !strings.Contains(got, key+"\x00"+value+"\x00") {
			t.Errorf("the session does not ask for %s=%s: %q", key, value, got)
		}
	}
}

// A hung session is left without a second connection: the driver's own way is
// to dial again and cancel the query.
func TestPostgresDoesNotDialAgainToCancel(t *testing.T) {
	t.Parallel()
	l := listen(t)
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
			go func() {
				buf := make([]byte, 4096)
				_, _ = conn.Read(buf)
				// AuthenticationOk, ReadyForQuery, and then silence.
				_, _ = conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I"))
			}()
		}
	}()
	p := openPostgres(t, source.PostgresOptions{Name: "s", DSN: dsn(l.Addr().String(), "sslmode=disable"), Timeout: 200 * time.Millisecond})
	if _, err := p.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrHung) {
		t.Fatalf("got %v, want ErrHung", err)
	}
	first := <-accepted
	if err := first.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		if _, err := first.Read(buf); err != nil {
			var netErr net.Error
			if errors.As(err, &netErr) && netErr.Timeout() {
				t.Error("the hung connection is kept open")
			}
			break
		}
	}
	_ = l.Close()
	if _, more := <-accepted; more {
		t.Error("the agent dialled a second time")
	}
}

func TestPostgresKeepsSecrets(t *testing.T) {
	t.Parallel()
	for _, bad := range []source.Secret{
		"postgres://u:hunter2@host:notaport/db", "postgres://u:hun%zzter2@h/db", "host=h password=hunter2 sslmode=nonsense",
		"postgres://u:hunter2@[::1/db",
	} {
		_, err := source.NewPostgres(source.PostgresOptions{Name: "shard0", DSN: bad})
		if err == nil {
			t.Errorf("%q: got no error", string(bad))
		} else if strings.Contains(err.Error(), "hun") {
			t.Errorf("the error holds the password: %v", err)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func startupParameters(t *testing.T) string {
	t.Helper()
	l := listen(t)
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer func() { _ = conn.Close() }()
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		got <- string(buf[:n])
	}()
	p := openPostgres(t, source.PostgresOptions{Name: "s", DSN: dsn(l.Addr().String(), "sslmode=disable")})
	if _, err := p.Ping(t.Context(), new(probes.Cost)); err == nil {
		t.Error("got no error from a server that hangs up")
	}
	return <-got
}
