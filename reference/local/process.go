package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// account is whom a child runs as; nil means the same as this process.
type account struct{ uid, gid uint32 }

// process is a running child. Its methods are safe for concurrent use.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is gone and reaped
	err  error         // how it ended, once done is closed
}

// startProcess starts a child in a process group of its own, so that Ctrl-C in a terminal reaches this process alone, which
// then ends the child in good order. The child gets the signal deathSignal when this process dies: the kernel sends it
// when the thread that forked ends, hence the goroutine that is locked to its thread for as long as the child lives.
func startProcess(cmd *exec.Cmd, as *account, deathSignal syscall.Signal) (*process, error) {
	cmd.SysProcAttr = attributes(deathSignal)
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid, Groups: []uint32{}}
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run runs a command to its end. What it prints goes to the file log, whose end is in the error.
func run(ctx context.Context, cmd *exec.Cmd, as *account, log string) error {
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the child writes to it, not we
	cmd.Stdout, cmd.Stderr = out, out
	p, err := startProcess(cmd, as, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.stop(syscall.SIGTERM, time.Second)
		return ctx.Err()
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Path, p.err, tail(log))
	}
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the child by the signal, and by SIGKILL when it does not obey within grace. A child that was paused is woken
// first. It returns when the child is gone.
func (p *process) stop(sig syscall.Signal, grace time.Duration) {
	if p.running() {
		_ = signalTree(p.cmd.Process, syscall.SIGCONT) // if it has ended meanwhile, all is well
		_ = p.cmd.Process.Signal(sig)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// await calls ready until it succeeds, the child exits, or the time is up.
func (p *process) await(ctx context.Context, log string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%w: %s", errExited, tail(log))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// errExited is returned by await when the child ended instead of getting ready.
var errExited = errors.New("server exited")
