package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// RedisOptions chooses the kind of Redis.
type RedisOptions struct {
	// Real starts the system's redis-server instead of the one embedded in this process. What the embedded one cannot tell,
	// it does not make up: it has no memory, no slow log, no client limit.
	Real bool
}

// Redis is a private Redis at an address that stays the same when it is stopped and started again. It is safe for
// concurrent use.
type Redis struct {
	addr    string
	cleanup func() bool // forgets the context

	mu     sync.Mutex
	closed bool
	server redisServer
}

// redisServer is one of the two kinds.
type redisServer interface {
	start(ctx context.Context, addr string) error
	stop()
	process() *process // nil when it is embedded or stopped
	remove() error
}

// StartRedis starts a Redis and returns when it answers.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	r := &Redis{server: &embeddedRedis{}}
	if o.Real {
		server, err := newRealRedis()
		if err != nil {
			return nil, fmt.Errorf("start redis: %w", err)
		}
		r.server = server
	}
	var err error
	for range startTries {
		if r.addr, err = freeAddress(); err != nil {
			break
		}
		if err = r.server.start(ctx, r.addr); !errors.Is(err, errExited) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start redis: %w", err), r.server.remove())
	}
	r.cleanup = context.AfterFunc(ctx, func() { _ = r.close() }) // whoever calls Close is told the error
	return r, nil
}

// Addr is the host:port.
func (r *Redis) Addr() string { return r.addr }

// Pid is the process id of a real server, 0 when it is embedded or stopped.
func (r *Redis) Pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.server.process(); p != nil {
		return p.pid()
	}
	return 0
}

// Stop ends the server at once: its port refuses connections from then on. A real one forgets its data.
func (r *Redis) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server.stop()
}

// Restart starts the server at the same address, after stopping it where it runs.
func (r *Redis) Restart(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fmt.Errorf("restart redis: %w", ErrClosed)
	}
	r.server.stop()
	if err := r.server.start(ctx, r.addr); err != nil {
		return fmt.Errorf("restart redis: %w", err)
	}
	return nil
}

// Pause freezes a real server (SIGSTOP): connections are accepted by the kernel, nothing answers.
func (r *Redis) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume wakes a paused server.
func (r *Redis) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Redis) signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.server.process()
	if p == nil {
		return errors.New("redis has no process of its own: it is embedded or stopped")
	}
	return signalTree(p.cmd.Process, sig)
}

// Close ends the server and removes what it left. It may be called again.
func (r *Redis) Close() error {
	r.cleanup()
	return r.close()
}

func (r *Redis) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.server.stop()
	return r.server.remove()
}

// embeddedRedis is miniredis. Its data outlive a stop.
type embeddedRedis struct {
	mini  *miniredis.Miniredis
	quit  chan struct{}
	clock sync.WaitGroup
}

func (e *embeddedRedis) start(_ context.Context, addr string) error {
	if e.mini == nil {
		e.mini = miniredis.NewMiniRedis()
	}
	// Its Close ends this context for good, after which it answers no blocking command.
	e.mini.Ctx, e.mini.CtxCancel = context.WithCancel(context.Background())
	if err := e.mini.StartAddr(addr); err != nil {
		return fmt.Errorf("%w: %w", errExited, err)
	}
	// Keys in miniredis expire only when it is told that time goes by.
	quit := make(chan struct{}) // the goroutine must not read the field, which stop clears
	e.quit = quit
	e.clock.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case now := <-tick.C:
				e.mini.FastForward(now.Sub(last))
				last = now
			case <-quit:
				return
			}
		}
	})
	return nil
}

func (e *embeddedRedis) stop() {
	if e.quit == nil {
		return
	}
	close(e.quit)
	e.quit = nil
	e.clock.Wait()
	e.mini.Close()
}

func (e *embeddedRedis) process() *process { return nil }
func (e *embeddedRedis) remove() error     { return nil }

// realRedis is the system's redis-server.
type realRedis struct {
	binary string
	folder *folder
	child  *process
}

func newRealRedis() (*realRedis, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed; on Debian: apt-get install -y --no-install-recommends redis-server")
	}
	f, err := newFolder(nil)
	if err != nil {
		return nil, err
	}
	return &realRedis{binary: binary, folder: f}, nil
}

func (r *realRedis) start(ctx context.Context, addr string) error {
	log := r.folder.join("redis.log")
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()                                                            //nolint:errcheck // the child has its own copy
	cmd := exec.Command(r.binary, "--port", portOf(addr), "--bind", "127.0.0.1", //nolint:noctx // it outlives any one call
		"--save", "", "--appendonly", "no", "--dir", r.folder.path)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.folder.path, out, out
	child, err := startProcess(cmd, nil, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := child.await(ctx, log, func(ctx context.Context) error { return ping(ctx, addr) }); err != nil {
		child.stop(syscall.SIGKILL, 0)
		return err
	}
	r.child = child
	return nil
}

func (r *realRedis) stop() {
	if p := r.process(); p != nil {
		p.stop(syscall.SIGKILL, 0)
	}
}

func (r *realRedis) process() *process {
	if r.child == nil || !r.child.running() {
		return nil
	}
	return r.child
}

func (r *realRedis) remove() error { return r.folder.remove() }

// ping asks a Redis whether it answers.
func ping(ctx context.Context, addr string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing was written that could be lost
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if answer != "+PONG\r\n" {
		return fmt.Errorf("answer to PING is %q", answer)
	}
	return nil
}
