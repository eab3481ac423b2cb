package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
)

// plan is what a patient is like before anything happens to him.
type plan struct {
	names    int      // registered from the beginning
	capacity int      // the filter's
	flags    []string // further flags of the checker
	// build makes back ends other than the checker's private ones, and returns the
	// flags that lead the checker there; nil for none.
	build func(ctx context.Context, p *patient) (flags []string, err error)
	load  load.Profile
	// markers says that Redis is to know of the names, as the checker sees to with
	// back ends of its own.
	markers bool
	// cores are how many the checker may use; all when zero.
	cores int
	// busy says that what hurts him needs the machine for itself.
	busy bool
	// warm is how long he is well under load, sick how long he is ill before the
	// agent is asked.
	warm, sick time.Duration
}

// light says that he leaves a machine of two cores room for another.
func (pl plan) light() bool { return !pl.busy && pl.load.Rate < 500 }

// patient is a registration path on real servers, every one a process of its
// own, so that it can be hurt from outside: nothing in the checker knows.
type patient struct {
	plan    plan
	checker string // the binary
	url     string
	redis   string // host:port
	shards  []string
	// postgres are the servers of the shards where the plan has built them.
	postgres *local.Postgres
	bouncer  *local.PgBouncer // before one of them, where the plan has it
	// agent are the arguments that point the agent at it.
	agent   []string
	process *exec.Cmd
	rest    sync.WaitGroup // of the checker's output

	life    context.Context // ends when he is discharged
	end     context.CancelFunc
	running sync.WaitGroup
	undo    []func() error
	ruins   []func() error // what the plan has built
}

// admit starts a patient under load. On an error nothing is left behind.
func admit(ctx context.Context, checker string, pl plan) (_ *patient, err error) {
	p := &patient{plan: pl, checker: checker}
	p.life, p.end = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.discharge())
		}
	}()
	args := append([]string{
		"--real", "--faults", "--listen", "127.0.0.1:0", "--names", strconv.Itoa(pl.names), "--filter-capacity", strconv.Itoa(pl.capacity),
	}, pl.flags...)
	if pl.build != nil {
		flags, err := pl.build(ctx, p)
		if err != nil {
			return p, err
		}
		args = append(args, flags...)
	}
	if err := p.start(args); err != nil {
		return p, err
	}
	if pl.markers {
		if err := p.mark(ctx); err != nil {
			return p, err
		}
	}
	p.spawn(func(ctx context.Context) { p.send(ctx, p.url, pl.load) })
	return p, pause(ctx, pl.warm)
}

// mark gives Redis the markers that an hour of load would have left.
func (p *patient) mark(ctx context.Context) error {
	c, err := cache.NewRedis(cache.RedisOptions{Address: p.redis, Timeout: startup})
	if err != nil {
		return fmt.Errorf("warm redis: %w", err)
	}
	err = c.MarkAllTaken(ctx, func(yield func(string) bool) {
		for i := range p.plan.names {
			if i%10 != 0 && !yield(load.Name(i)) {
				return
			}
		}
	})
	return errors.Join(err, c.Close())
}

// send puts load on a checker until it is sent or ctx ends.
func (p *patient) send(ctx context.Context, url string, profile load.Profile) {
	if _, err := load.Run(ctx, url, profile); err != nil {
		fmt.Fprintln(os.Stderr, "proof: load:", err)
	}
}

// start runs the checker, and returns once it serves and has said how to have it
// diagnosed.
func (p *patient) start(args []string) error {
	p.process = exec.Command(p.checker, args...) //nolint:noctx // discharge stops it in order
	p.process.Stderr = os.Stderr
	if p.plan.cores > 0 {
		p.process.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(p.plan.cores))
	}
	stdout, err := p.process.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start checker: %w", err)
	}
	if err := p.process.Start(); err != nil {
		return fmt.Errorf("start checker: %w", err)
	}
	late := time.AfterFunc(startup, func() { _ = p.process.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(stdout)
	for p.agent == nil && lines.Scan() {
		if command, ok := strings.CutPrefix(lines.Text(), "diagnose run "); ok {
			p.agent = strings.Fields(command)
		}
	}
	if p.agent == nil {
		return errors.New("the checker does not say how to have it diagnosed")
	}
	p.rest.Go(func() {
		for lines.Scan() { // nothing must block it
		}
	})
	for i := 0; i+1 < len(p.agent); i += 2 {
		switch value := &p.agent[i+1]; p.agent[i] {
		case "--checker":
			p.url = *value
		case "--redis":
			p.redis = *value
		case "--shard-dsn":
			if p.postgres != nil { // the agent asks the servers themselves, whatever is before them
				*value = p.postgres.DSN(len(p.shards))
			}
			p.shards = append(p.shards, *value)
		}
	}
	return nil
}

// discharge undoes what was done to the patient, latest first, and ends all of
// it.
func (p *patient) discharge() error {
	var errs []error
	for _, undo := range slices.Backward(p.undo) {
		errs = append(errs, undo())
	}
	p.end()
	p.running.Wait()
	if p.process != nil && p.process.Process != nil {
		_ = p.process.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(startup, func() { _ = p.process.Process.Kill() })
		p.rest.Wait()
		_ = p.process.Wait() // it may have been ended on purpose
		kill.Stop()
	}
	for _, raze := range slices.Backward(p.ruins) {
		errs = append(errs, raze())
	}
	return errors.Join(errs...)
}

// later has something undone before the patient is discharged.
func (p *patient) later(undo func() error) { p.undo = append(p.undo, undo) }

// spawn runs f beside everything else until the patient is discharged.
func (p *patient) spawn(f func(ctx context.Context)) {
	p.running.Go(func() { f(p.life) })
}

// fault switches one of the checker's own faults on.
func (p *patient) fault(ctx context.Context, name string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/debug/fault/"+name, nil)
	if err != nil {
		return fmt.Errorf("switch %s: %w", name, err)
	}
	c := http.Client{Timeout: startup} // some faults take a rebuild
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("switch %s: %w", name, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is read from it
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("switch %s: %s", name, resp.Status)
	}
	return nil
}

// command sends one command to the patient's Redis, on a connection of its own.
func (p *patient) command(ctx context.Context, words ...any) (any, error) {
	c := redis.NewClient(&redis.Options{Addr: p.redis, PoolSize: 1, MaxRetries: -1})
	defer c.Close() //nolint:errcheck // it was only used for one command
	answer, err := c.Do(ctx, words...).Result()
	if err != nil {
		return nil, fmt.Errorf("redis %v: %w", words[0], err)
	}
	return answer, nil
}

// redisPid is the process of the patient's Redis, as that says.
func (p *patient) redisPid(ctx context.Context) (int, error) {
	answer, err := p.command(ctx, "info", "server")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(fmt.Sprint(answer)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			return strconv.Atoi(id)
		}
	}
	return 0, errors.New("redis does not tell its process")
}

// connect opens a session on a shard under a name.
func (p *patient) connect(ctx context.Context, shard int, user, who string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(p.shards[shard])
	if err != nil {
		return nil, fmt.Errorf("shard%d: %w", shard, err)
	}
	config.User, config.RuntimeParams["application_name"] = user, who
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("shard%d: %w", shard, err)
	}
	return c, nil
}

// session is a connection that lasts until the patient is discharged.
func (p *patient) session(ctx context.Context, shard int, user, who string) (*pgx.Conn, error) {
	c, err := p.connect(ctx, shard, user, who)
	if err == nil {
		p.later(func() error { return c.Close(context.WithoutCancel(ctx)) })
	}
	return c, err
}

// sql runs statements on a shard, as an operator does.
func (p *patient) sql(ctx context.Context, shard int, statements ...string) error {
	c, err := pgx.Connect(ctx, p.shards[shard])
	if err != nil {
		return fmt.Errorf("shard%d: %w", shard, err)
	}
	defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what it did is done
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return fmt.Errorf("shard%d: %s: %w", shard, s, err)
		}
	}
	return nil
}

// shardPid is the postmaster of a shard.
func (p *patient) shardPid(ctx context.Context, shard int) (int, error) {
	c, err := pgx.Connect(ctx, p.shards[shard])
	if err != nil {
		return 0, fmt.Errorf("shard%d: %w", shard, err)
	}
	defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only read
	var folder string
	if err := c.QueryRow(ctx, "SHOW data_directory").Scan(&folder); err != nil {
		return 0, fmt.Errorf("shard%d: %w", shard, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("shard%d: %w", shard, err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return strconv.Atoi(string(bytes.TrimSpace(first)))
}

// freeze stops a process of the patient where it stands, until he is discharged.
func (p *patient) freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	p.later(func() error {
		// A session that was about to end when it was stopped has ended since.
		if err := syscall.Kill(pid, syscall.SIGCONT); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	})
	return nil
}

// freezeShard stops a whole shard, its sessions before the postmaster.
func (p *patient) freezeShard(ctx context.Context, shard int) error {
	pid, err := p.shardPid(ctx, shard)
	if err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return fmt.Errorf("shard%d: list sessions: %w", shard, err)
	}
	for _, word := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("shard%d: list sessions: %w", shard, err)
		}
		if err := p.freeze(child); err != nil && !errors.Is(err, syscall.ESRCH) { // a session may have ended since
			return fmt.Errorf("shard%d: %w", shard, err)
		}
	}
	return nil
}
