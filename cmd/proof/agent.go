package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

// agent is the shipped binary, serving in a process of its own.
type agent struct {
	hook string // where its webhook is
	cmd  *exec.Cmd
	dead bool
}

// agentToken is taken by every agent of a proof.
const agentToken = "of-this-run-only"

// startAgent runs the binary with that configuration and returns once it takes
// notifications in. What it logs goes to log.
func startAgent(ctx context.Context, binary, config string, log io.Writer) (*agent, error) {
	a := &agent{cmd: exec.CommandContext(ctx, binary, "serve", "--config", config)}
	a.cmd.Cancel = func() error { return a.cmd.Process.Signal(syscall.SIGTERM) }
	lines, err := a.cmd.StderrPipe()
	if err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	if a.hook, err = readyAt(lines, log); err != nil {
		return nil, errors.Join(err, a.kill())
	}
	return a, nil
}

// shown is where the log of a child goes.
func shown(verbose bool) io.Writer {
	if verbose {
		return os.Stderr
	}
	return io.Discard
}

// readyAt reads from the agent's log where its webhook is; what follows goes to
// rest.
func readyAt(log io.Reader, rest io.Writer) (string, error) {
	ready := regexp.MustCompile(`msg=ready webhook=(http://\S+)`)
	lines := bufio.NewScanner(log)
	last := ""
	for lines.Scan() {
		last = lines.Text()
		if _, err := fmt.Fprintln(rest, lines.Text()); err != nil {
			return "", err
		}
		if m := ready.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(rest, log) }() // until the agent ends
			return m[1], nil
		}
	}
	return "", errors.Join(fmt.Errorf("the agent ended before it was ready: %s", last), lines.Err())
}

// kill ends the agent at once, as a crash would.
func (a *agent) kill() error {
	a.dead = true
	if err := a.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the agent: %w", err)
	}
	_ = a.cmd.Wait() // says that it was killed
	return nil
}

// used is the CPU time of an agent that has ended.
func (a *agent) used() time.Duration {
	return a.cmd.ProcessState.UserTime() + a.cmd.ProcessState.SystemTime()
}

// stop ends the agent in good order, unless it is dead.
func (a *agent) stop() error {
	if a.dead {
		return nil
	}
	a.dead = true
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}
