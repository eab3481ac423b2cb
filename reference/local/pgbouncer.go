package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// pgbouncerPath is where Debian installs it.
const pgbouncerPath = "/usr/sbin/pgbouncer"

// PgBouncer is a pooler before one server, in transaction mode. Anybody may log in.
type PgBouncer struct {
	folder *folder
	child  *process
	addr   string
}

// StartPgBouncer starts a pooler before the server at target, a host:port, with so many server connections, and returns when
// it answers.
func StartPgBouncer(ctx context.Context, target string, poolSize int) (_ *PgBouncer, err error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	as, err := unprivileged() // it refuses root, too
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	p := &PgBouncer{}
	if p.folder, err = newFolder(as); err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	for range startTries {
		if p.addr, err = freeAddress(); err != nil {
			break
		}
		if err = p.start(ctx, as, host, port, poolSize); !errors.Is(err, errExited) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start pgbouncer: %w", err), p.folder.remove())
	}
	return p, nil
}

func (p *PgBouncer) start(ctx context.Context, as *account, host, port string, poolSize int) error {
	ini := fmt.Sprintf(`[databases]
postgres = host=%s port=%s user=postgres dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = %d
`, host, port, portOf(p.addr), poolSize)
	file, log := p.folder.join("pgbouncer.ini"), p.folder.join("pgbouncer.log")
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil { //nolint:gosec // another account reads it, and it holds no secret
		return err
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()                        //nolint:errcheck // the child has its own copy
	cmd := exec.Command(pgbouncerPath, file) //nolint:noctx // it outlives any one call
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.folder.path, environment(), out, out
	if p.child, err = startProcess(cmd, as, syscall.SIGKILL); err != nil {
		return err
	}
	if err := p.child.await(ctx, log, connect(p.DSN())); err != nil {
		p.child.stop(syscall.SIGKILL, time.Second)
		return err
	}
	return nil
}

// DSN is the connection string of the server behind it. The statements of pgx need default_query_exec_mode=cache_describe.
func (p *PgBouncer) DSN() string { return p.dsn("postgres") }

// Console is the connection string of its admin console.
func (p *PgBouncer) Console() string { return p.dsn("pgbouncer") }

func (p *PgBouncer) dsn(database string) string {
	return "postgres://postgres@" + p.addr + "/" + database + "?sslmode=disable"
}

// Close ends it and removes its files.
func (p *PgBouncer) Close() error {
	p.child.stop(syscall.SIGKILL, time.Second) // its clients lose their connections in any case
	return p.folder.remove()
}
