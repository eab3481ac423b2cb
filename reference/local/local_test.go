package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// childEnv makes the test binary play the process that starts back ends and is killed.
const childEnv = "LOCAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(); err != nil {
			fmt.Println("error", err)
		}
		return
	}
	os.Exit(m.Run())
}

// child starts one back end of each kind, freezes a shard, tells what it started and waits to be killed.
func child() error {
	ctx := context.Background()
	r, err := StartRedis(ctx, RedisOptions{Real: true})
	if err != nil {
		return err
	}
	p, err := StartPostgres(ctx, PostgresOptions{Shards: 2})
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, p.DSN(1))
	if err != nil {
		return err
	}
	if err := p.Pause(1); err != nil { // with the session that conn has
		return err
	}
	fmt.Println("pid", r.Pid())
	fmt.Println("pid", p.Pid(0))
	fmt.Println("pid", p.Pid(1))
	fmt.Println("pid", conn.PgConn().PID())
	fmt.Println("path", r.server.(*realRedis).folder.path)
	fmt.Println("path", p.folder.path)
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	var paths []string
	for ready := false; !ready; {
		var what, value string
		if n, err := fmt.Fscanln(out, &what, &value); n == 0 && err != nil {
			t.Fatalf("the child ended: %v", err)
		}
		switch what {
		case "pid":
			pid, err := strconv.Atoi(value)
			if err != nil || pid == 0 {
				t.Fatalf("the child says that a process id is %q", value)
			}
			pids = append(pids, pid)
		case "path":
			paths = append(paths, value)
		case "error":
			t.Fatalf("the child failed: %s …", value)
		case "ready":
			ready = true
		}
	}
	if len(pids) != 4 || len(paths) != 2 {
		t.Fatalf("the child told of processes %v and paths %q, want 4 and 2", pids, paths)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %d does not run while its parent does", pid)
		}
	}
	for _, path := range paths {
		if !exists(path) {
			t.Errorf("%s is not there while the process runs", path)
		}
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed, as it will say
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
	for _, path := range paths {
		eventually(t, path+" is gone", func() bool { return !exists(path) })
	}
}

// alive tells whether a process runs; one that is dead and only waits to be reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited a minute in vain until %s", what)
		}
	}
}

// refuses tells whether nobody listens at the address.
func refuses(t *testing.T, addr string) bool {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func TestRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name string
		real bool
	}{{"embedded", false}, {"real", true}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r, err := StartRedis(t.Context(), RedisOptions{Real: kind.real})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			client := redis.NewClient(&redis.Options{Addr: r.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
			t.Cleanup(func() { _ = client.Close() })
			ctx := t.Context()

			if got := r.Pid() != 0; got != kind.real {
				t.Errorf("it has a process of its own: %t, want %t", got, kind.real)
			}
			if err := client.Set(ctx, "short", "x", 300*time.Millisecond).Err(); err != nil {
				t.Fatal(err)
			}
			if n := client.Exists(ctx, "short").Val(); n != 1 {
				t.Error("a key is gone before its time")
			}
			eventually(t, "a key expires", func() bool { return client.Exists(ctx, "short").Val() == 0 })

			addr := r.Addr()
			for range 2 { // a second Stop is none
				r.Stop()
				if !refuses(t, addr) {
					t.Error("a stopped Redis takes connections")
				}
			}
			if r.Pid() != 0 {
				t.Error("a stopped Redis has a process")
			}
			if err := r.Pause(); err == nil {
				t.Error("a stopped Redis can be paused")
			}
			for range 2 { // the second stops it first
				if err := r.Restart(ctx); err != nil {
					t.Fatal(err)
				}
				if err := ping(ctx, addr); err != nil || r.Addr() != addr {
					t.Errorf("after Restart: %v, at %s, before at %s", err, r.Addr(), addr)
				}
			}

			if err := r.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if !refuses(t, addr) {
				t.Error("a closed Redis takes connections")
			}
			if err := r.Restart(ctx); !errors.Is(err, ErrClosed) {
				t.Errorf("Restart after Close: %v, want ErrClosed", err)
			}
			if err := r.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
			if server, ok := r.server.(*realRedis); ok && exists(server.folder.path) {
				t.Errorf("Close left %s", server.folder.path)
			}
		})
	}
}

func TestPauseRedis(t *testing.T) {
	t.Parallel()
	r, err := StartRedis(t.Context(), RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := ping(t.Context(), r.Addr()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("PING to a paused Redis: %v, want a timeout", err)
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := ping(t.Context(), r.Addr()); err != nil {
		t.Errorf("PING after Resume: %v", err)
	}
}

func TestBackEndsEndWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	embedded, err := StartRedis(ctx, RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := StartRedis(ctx, RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartPostgres(ctx, PostgresOptions{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := NewDelayProxy(ctx, r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	pids, paths := []int{r.Pid(), p.Pid(0)}, []string{r.server.(*realRedis).folder.path, p.folder.path}
	cancel()
	for _, addr := range []string{embedded.Addr(), r.Addr(), p.shards[0].addr, proxy.Addr()} {
		eventually(t, addr+" refuses", func() bool { return refuses(t, addr) })
	}
	for i := range pids {
		eventually(t, "the processes are gone", func() bool { return !alive(pids[i]) })
		eventually(t, "the folders are gone", func() bool { return !exists(paths[i]) })
	}
	for _, closer := range []interface{ Close() error }{embedded, r, p} {
		if err := closer.Close(); err != nil {
			t.Errorf("Close after the context has ended: %v", err)
		}
	}
	if _, err := StartPostgres(ctx, PostgresOptions{Shards: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("StartPostgres with an ended context: %v, want Canceled", err)
	}
}

func TestStartRedisOnATakenPort(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r, err := newRealRedis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.remove() })
	for _, server := range []redisServer{r, &embeddedRedis{}} {
		err := server.start(t.Context(), l.Addr().String())
		if !errors.Is(err, errExited) || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			t.Errorf("%T on a port that is taken: %v, want errExited and the reason", server, err)
		}
	}
}

func TestMissingBinaries(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := StartRedis(t.Context(), RedisOptions{Real: true}); err == nil || !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends redis-server") {
		t.Errorf("without redis-server: %v, want the command that installs it", err)
	}
	if _, err := findPostgres("/nowhere/*/bin/initdb"); err == nil || !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends postgresql") {
		t.Errorf("without postgres: %v, want the command that installs it", err)
	}
}

func TestFindNewestPostgres(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"9.6", "15", "7", "17"} {
		bin := filepath.Join(dir, version, "bin")
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, "initdb"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findPostgres(filepath.Join(dir, "*", "bin", "initdb"))
	if want := filepath.Join(dir, "17", "bin"); got != want || err != nil {
		t.Errorf("findPostgres = %s, %v, want %s", got, err, want)
	}
}

func TestFolderThatOthersCanSearch(t *testing.T) {
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(closed, "open")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	f := func(path string, want bool) {
		t.Helper()
		if got := searchable(path); got != want {
			t.Errorf("searchable(%s) = %t, want %t", path, got, want)
		}
	}
	f(closed, false)
	f(below, false)
	f(filepath.Join(closed, "absent"), false)
	f("/tmp", true)
	f("/", true)

	t.Setenv("TMPDIR", below)
	if got, err := parentFolder(&account{uid: 65534, gid: 65534}); got != "/tmp" || err != nil {
		t.Errorf("parentFolder for another account = %s, %v, want /tmp", got, err)
	}
	if got, err := parentFolder(nil); got != below || err != nil {
		t.Errorf("parentFolder for this account = %s, %v, want %s", got, err, below)
	}
}
