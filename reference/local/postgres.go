package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// PostgresOptions describes the servers to start.
type PostgresOptions struct {
	// Shards is the number of servers; 0 means 4.
	Shards int
	// Durable makes commits wait for the disk, as a benchmark needs it. Without it they survive a crash of the server, not
	// of the machine.
	Durable bool
}

// Postgres is a set of private PostgreSQL servers, one per shard, each a postmaster of its own so that it can be stopped or
// frozen alone. It is safe for concurrent use.
type Postgres struct {
	folder  *folder
	shards  []*postmaster
	cleanup func() bool // forgets the context

	mu       sync.Mutex
	standbys []*postmaster
}

// StartPostgres finds the system's PostgreSQL, makes one cluster, copies it for each shard and returns when all answer.
// PostgreSQL refuses to run as root; the servers then run as the user postgres, or else nobody.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	if o.Shards <= 0 {
		o.Shards = 4
	}
	bin, err := findPostgres("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	f, err := newFolder(as)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	p := &Postgres{folder: f}
	if err := p.start(ctx, bin, as, o); err != nil {
		p.stopAll()
		return nil, errors.Join(fmt.Errorf("start postgres: %w", err), f.remove())
	}
	p.cleanup = context.AfterFunc(ctx, func() { _ = p.close() }) // whoever calls Close is told the error
	return p, nil
}

func (p *Postgres) start(ctx context.Context, bin string, as *account, o PostgresOptions) error {
	template := p.folder.join("template")
	// Small segments of the write-ahead log make the copies small.
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", template, "-A", "trust", "-U", "postgres", "-E", "UTF8", //nolint:noctx // run stops it
		"--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1")
	initdb.Dir, initdb.Env = p.folder.path, environment()
	if err := run(ctx, initdb, as, p.folder.join("initdb.log")); err != nil {
		return err
	}
	for i := range o.Shards {
		name := "shard" + strconv.Itoa(i)
		p.shards = append(p.shards, &postmaster{
			binary:  filepath.Join(bin, "postgres"),
			as:      as,
			data:    p.folder.join(name),
			log:     p.folder.join(name + ".log"),
			durable: o.Durable,
		})
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range p.shards {
		group.Go(func() error {
			clone := exec.Command("cp", "-Rp", template, s.data) //nolint:noctx // run stops it
			clone.Dir, clone.Env = p.folder.path, environment()
			if err := run(ctx, clone, as, s.log); err != nil {
				return err
			}
			return s.startAnywhere(ctx)
		})
	}
	return group.Wait()
}

// DSN is the connection string of shard i, whose role may do everything.
func (p *Postgres) DSN(i int) string { return p.shards[i].dsn() }

// Len is the number of shards.
func (p *Postgres) Len() int { return len(p.shards) }

// Pid is the process id of the postmaster of shard i, 0 when it does not run. Frozen alone, by SIGSTOP, it still lets the
// connections work that are open already; Pause freezes those too.
func (p *Postgres) Pid(i int) int { return p.shards[i].pid() }

// Stop ends shard i at once, connections included. Its data stay.
func (p *Postgres) Stop(i int) { p.shards[i].stop() }

// Restart starts shard i at the same address, after stopping it where it runs.
func (p *Postgres) Restart(ctx context.Context, i int) error {
	if err := p.shards[i].restart(ctx); err != nil {
		return fmt.Errorf("restart shard %d: %w", i, err)
	}
	return nil
}

// Pause freezes shard i with all its connections (SIGSTOP).
func (p *Postgres) Pause(i int) error { return p.shards[i].signal(syscall.SIGSTOP) }

// Resume wakes a paused shard.
func (p *Postgres) Resume(i int) error { return p.shards[i].signal(syscall.SIGCONT) }

// Close ends all servers and removes their files. It may be called again.
func (p *Postgres) Close() error {
	p.cleanup()
	return p.close()
}

func (p *Postgres) close() error {
	p.stopAll()
	return p.folder.remove()
}

func (p *Postgres) stopAll() {
	p.mu.Lock()
	servers := slices.Concat(p.shards, p.standbys)
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(s.close)
	}
	all.Wait()
}

// postmaster is the server of one shard.
type postmaster struct {
	binary, data, log string
	as                *account
	durable           bool
	addr              string // set once, before anybody else knows the postmaster

	mu     sync.Mutex
	closed bool
	child  *process
}

// startAnywhere starts the server at an address of its choice.
func (s *postmaster) startAnywhere(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for range startTries {
		if s.addr, err = freeAddress(); err != nil {
			return err
		}
		if err = s.start(ctx); !errors.Is(err, errExited) {
			break
		}
	}
	return err
}

func (s *postmaster) restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	// A server that was killed leaves sessions that need a moment to notice; until then it exits again.
	var err error
	for range startTries {
		if err = s.start(ctx); !errors.Is(err, errExited) {
			break
		}
	}
	return err
}

// start needs the lock held.
func (s *postmaster) start(ctx context.Context) error {
	if s.closed {
		return ErrClosed
	}
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the child has its own copy
	args := []string{
		"-D", s.data, "-p", portOf(s.addr), "-c", "listen_addresses=127.0.0.1",
		"-k", "", // no socket file: temporary folders can be too deep for its 107 bytes
		"-c", "dynamic_shared_memory_type=mmap", // in the data folder, which is removed, not in /dev/shm
		"-c", "shared_buffers=16MB",
	}
	if !s.durable {
		// synchronous_commit stays on: without it an immediate shutdown, as Stop is one, loses the last commits.
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	cmd := exec.Command(s.binary, args...) //nolint:noctx // it outlives any one call
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.data, environment(), out, out
	// SIGQUIT is PostgreSQL's immediate shutdown, which ends frozen sessions too, after five seconds, and frees the shared
	// memory. SIGINT would wait for them, SIGKILL leave the memory behind.
	child, err := startProcess(cmd, s.as, syscall.SIGQUIT)
	if err != nil {
		return err
	}
	if err := child.await(ctx, s.log, connect(s.dsn())); err != nil {
		child.stop(syscall.SIGQUIT, quitGrace)
		return err
	}
	s.child = child
	return nil
}

// quitGrace is longer than the five seconds after which a postmaster kills what does not obey.
const quitGrace = 7 * time.Second

// connect tries whether a server answers.
func connect(dsn string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		conn, err := pgconn.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
}

func (s *postmaster) dsn() string {
	return "postgres://postgres@" + s.addr + "/postgres?sslmode=disable"
}

func (s *postmaster) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil || !s.child.running() {
		return 0
	}
	return s.child.pid()
}

func (s *postmaster) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil || !s.child.running() {
		return fmt.Errorf("%s is not running", filepath.Base(s.data))
	}
	return signalTree(s.child.cmd.Process, sig)
}

func (s *postmaster) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

func (s *postmaster) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.end()
}

// end needs the lock held.
func (s *postmaster) end() {
	if s.child != nil {
		s.child.stop(syscall.SIGQUIT, quitGrace)
		s.child = nil
	}
}

// findPostgres is the folder of initdb and postgres: the newest of those that match the pattern, else what is on PATH.
func findPostgres(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		path, err := exec.LookPath("initdb")
		if err != nil {
			return "", errors.New("postgresql is not installed; on Debian: apt-get install -y --no-install-recommends postgresql")
		}
		return filepath.Dir(path), nil
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0, the oldest, for what is no number
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// unprivileged is the account that PostgreSQL runs as when this process is root, nil when it is not.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("postgresql does not run as root, and there is neither a user postgres nor nobody")
}

// environment keeps the settings of whoever runs this, PGDATA and the like, away from the servers.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}
