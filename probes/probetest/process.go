package probetest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a server process of its own, ended with the test.
type Server struct {
	// Addr is where it listens: 127.0.0.1 and a free port.
	Addr string
	run  func() *exec.Cmd
	cmd  *exec.Cmd
}

// Stop freezes the process: connections stand, the kernel accepts new ones,
// and nobody answers.
func (s *Server) Stop(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue wakes a frozen process.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// Kill ends the process at once.
func (s *Server) Kill(t testing.TB) {
	s.signal(t, syscall.SIGKILL)
	_ = s.cmd.Wait()
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	// Postgres serves every connection from a process of its own, in a group
	// of its own.
	pids := append(children(s.cmd.Process.Pid), s.cmd.Process.Pid)
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("signal %v: %v", sig, err)
		}
	}
}

// children returns the processes that pid has started and that still run.
func children(pid int) []int {
	var found []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		// pid (name) state parent …; the name may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found
}

// Redis starts a redis-server with the given further arguments and waits until
// it accepts connections.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	port := freePort(t)
	dir := t.TempDir()
	base := []string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir,
	}
	return start(t, port, "redis-server", append(base, args...), dir, nil)
}

// Postgres makes a private Postgres cluster, starts it and waits until it
// accepts connections. Log in as user postgres, database postgres.
func Postgres(t testing.TB, args ...string) *Server {
	t.Helper()
	bin := postgresBin(t)
	user := unprivileged(t)
	// Not t.TempDir: every folder above must be open to the server's user.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if user != nil {
		if err := os.Chown(dir, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"),
		"-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir = dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freePort(t)
	base := []string{
		"-D", data, "-k", dir, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_prepared_transactions=2",
		"-c", "dynamic_shared_memory_type=mmap", // in the data folder, which is removed, not in /dev/shm
	}
	return start(t, port, filepath.Join(bin, "postgres"), append(base, args...), dir, user)
}

func start(t testing.TB, port int, path string, args []string, dir string, user *syscall.Credential) *Server {
	t.Helper()
	s := &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		run: func() *exec.Cmd {
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
			cmd.Dir = dir
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user, Setpgid: true}
			return cmd
		},
	}
	t.Cleanup(func() {
		if s.cmd != nil && s.cmd.ProcessState == nil {
			s.Kill(t)
		}
	})
	s.Start(t)
	return s
}

// Start starts the process again after Kill, at the same address, and waits
// until it accepts connections.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.cmd = s.run()
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", s.cmd.Path, err)
	}
	Eventually(t, filepath.Base(s.cmd.Path)+" accepts connections", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// Eventually polls until ok holds and fails the test when it does not within
// 20 seconds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

// postgresBin finds the newest installed server; Debian keeps it off PATH.
func postgresBin(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Fatal("no Postgres server is installed: apt-get install postgresql")
	}
	return filepath.Dir(found[len(found)-1])
}

// unprivileged returns whom to run Postgres as, since it refuses root; nil for
// the present user.
func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if c := credential(name); c != nil {
			return c
		}
	}
	t.Fatal("Postgres refuses root and there is no user postgres or nobody")
	return nil
}
