package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/regpath/diagnose/reference/local"
)

// instance is a checker in a process of its own.
type instance struct {
	url  string
	cmd  *exec.Cmd
	dead atomic.Bool
}

// startup bounds how long an instance may take until it serves.
const startup = time.Minute

func serving() *regexp.Regexp { return regexp.MustCompile(`^checker serves on (http://[^,]+),`) }

// startInstance runs the checker and returns once it serves. What it says of
// failures goes to stderr.
func startInstance(ctx context.Context, binary string, stderr io.Writer, args ...string) (*instance, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start checker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start checker: %w", err)
	}
	i := &instance{cmd: cmd}
	kill := time.AfterFunc(startup, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for i.url == "" && lines.Scan() {
		if m := serving().FindStringSubmatch(lines.Text()); m != nil {
			i.url = m[1]
		}
	}
	if i.url == "" || !kill.Stop() {
		_ = cmd.Process.Kill()
		return nil, errors.Join(errors.New("checker does not serve"), cmd.Wait())
	}
	return i, nil
}

// kill ends the process at once, as a crash would.
func (i *instance) kill() error {
	i.dead.Store(true)
	if err := i.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill checker: %w", err)
	}
	_ = i.cmd.Wait() // says that it was killed
	return nil
}

// stop lets the process end its work, unless it is dead.
func (i *instance) stop() error {
	if i.dead.Swap(true) {
		return nil
	}
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop checker: %w", err)
	}
	kill := time.AfterFunc(startup, func() { _ = i.cmd.Process.Kill() })
	defer kill.Stop()
	if err := i.cmd.Wait(); err != nil {
		return fmt.Errorf("stop checker: %w", err)
	}
	return nil
}

// fleet is several checkers over the same real Redis and PostgreSQL.
type fleet struct {
	redis     *local.Redis
	postgres  *local.Postgres
	instances []*instance
	dir       string
}

const fleetShards = 4

// startFleet starts the back ends and then one instance after another, as a
// rolling deployment does. On an error nothing is left behind.
func startFleet(ctx context.Context, binary string, instances int, capacity uint64, stderr io.Writer) (f *fleet, err error) {
	f = &fleet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.postgres, err = local.StartPostgres(ctx, local.PostgresOptions{Shards: fleetShards}); err != nil {
		return f, err
	}
	if f.redis, err = local.StartRedis(ctx, local.RedisOptions{Real: true}); err != nil {
		return f, err
	}
	if f.dir, err = os.MkdirTemp("", "diagnose-proof-"); err != nil {
		return f, fmt.Errorf("make a folder for the key: %w", err)
	}
	key := filepath.Join(f.dir, "receipts")
	if err := os.WriteFile(key, []byte(rand.Text()), 0o600); err != nil {
		return f, fmt.Errorf("write the key of receipts: %w", err)
	}
	args := []string{
		"--listen", "127.0.0.1:0", "--redis", f.redis.Addr(), "--receipt-key-file", key,
		"--filter-capacity", strconv.FormatUint(capacity, 10),
	}
	for _, dsn := range f.postgres.DSNs() {
		args = append(args, "--shard-dsn", dsn)
	}
	for i := range instances {
		one, err := startInstance(ctx, binary, stderr, append(args, "--machine", strconv.Itoa(i))...)
		if err != nil {
			return f, err
		}
		f.instances = append(f.instances, one)
	}
	return f, nil
}

// alive returns the first living instance from the given one on, nil if there
// is none.
func (f *fleet) alive(from int) *instance {
	for i := range f.instances {
		if one := f.instances[(from+i)%len(f.instances)]; !one.dead.Load() {
			return one
		}
	}
	return nil
}

// crashRedis kills Redis (SIGKILL) and starts it again, empty, after a while.
func (f *fleet) crashRedis(ctx context.Context, down time.Duration) error {
	f.redis.Stop()
	if err := pause(ctx, down); err != nil {
		return err
	}
	return f.redis.Restart(ctx)
}

func (f *fleet) close() error {
	var errs []error
	for _, i := range f.instances {
		errs = append(errs, i.stop())
	}
	if f.redis != nil {
		errs = append(errs, f.redis.Close())
	}
	if f.postgres != nil {
		errs = append(errs, f.postgres.Close())
	}
	if f.dir != "" {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	return errors.Join(errs...)
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beside is the path of a binary: the one given, else that of the name in the folder
// of this one.
func beside(given, name string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if cause, ok := errors.AsType[*exec.Error](err); ok {
			err = cause.Err
		}
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			err = cause.Err
		}
		if err != nil {
			return "", usageError{fmt.Errorf("--%s: %s cannot be run: %w; make build makes it", name, given, err)}
		}
		return path, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this binary: %w", err)
	}
	return filepath.Join(filepath.Dir(self), name), nil
}
