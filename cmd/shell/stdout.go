// Package shell holds the manners that the commands share: what they do when nobody
// can or will read what they print, when a file is none, when a flag is misspelt.
package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// The exit codes of every command that could not print what it was asked for.
const (
	ExitUnwritten = 4   // standard output cannot be written to
	ExitUnread    = 141 // whoever read it has gone, as shells have it
)

// HeedPipe makes a write to standard output whose reader has gone an error. Else it
// ended the process, with a recording half written and servers left behind.
func HeedPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Stdout is what a command prints to. It takes everything, so that the rest of the
// work is done whether it can be printed or not, and remembers the first error.
type Stdout struct {
	out io.Writer
	// failed is called once, when a write fails; it may be nil.
	failed func()

	mu  sync.Mutex
	err error
}

// NewStdout prints to out, and calls failed, unless it is nil, when that fails.
func NewStdout(out io.Writer, failed func()) *Stdout { return &Stdout{out: out, failed: failed} }

// Write implements io.Writer; it never fails.
func (s *Stdout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return len(p), nil
	}
	if _, s.err = s.out.Write(p); s.err != nil && s.failed != nil {
		s.failed()
	}
	return len(p), nil
}

// Failed says whether something could not be written.
func (s *Stdout) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// Exit returns the exit code of a command that would end with code. It differs where
// not all was printed, which is told to stderr unless nobody wanted to read it.
func (s *Stdout) Exit(code int, name string, stderr io.Writer) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err == nil:
		return code
	case errors.Is(s.err, syscall.EPIPE):
		return ExitUnread
	}
	err := s.err
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err // which names no more than stdout
	}
	_, _ = fmt.Fprintf(stderr, "%s: write to stdout: %v: the output is not complete\n", name, err)
	return ExitUnwritten
}
