package probetest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// PgBouncer starts a PgBouncer before the server at addr, in transaction mode, with
// so many server connections, and waits until it accepts connections. Log in as user
// postgres, database postgres, or pgbouncer for the admin console.
func PgBouncer(t testing.TB, addr string, poolSize int) *Server {
	t.Helper()
	host, backend, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	user := unprivileged(t) // it refuses root too
	dir, err := os.MkdirTemp("", "bouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port := freePort(t)
	file := filepath.Join(dir, "pgbouncer.ini")
	ini := fmt.Sprintf(`[databases]
postgres = host=%s port=%s user=postgres dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = %d
`, host, backend, port, poolSize)
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return start(t, port, "/usr/sbin/pgbouncer", []string{file}, dir, user)
}
