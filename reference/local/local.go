// Package local starts private, throw-away back ends for the demo and the tests: Redis, embedded or real, and real
// PostgreSQL, one server per shard, from the system's own binaries, as well as a proxy that delays a connection.
//
// Everything listens on 127.0.0.1 only. Everything ends and is removed when it is closed, when the context it was started
// with ends, and, on Linux, when this process dies in whatever way: servers get a signal from the kernel, and a small shell
// that waits for the end of its input removes the folder.
package local

import (
	"errors"
	"net"
	"os"
	"strconv"
	"time"
)

// ErrClosed is returned when something is asked of a back end that was closed.
var ErrClosed = errors.New("back end is closed")

const (
	// startTimeout bounds the wait for a server to answer. A machine that is not overloaded needs a second.
	startTimeout = time.Minute
	// startTries is how often a server is started on a new port when it exits at once, for the port that was free a moment
	// ago may be taken by then.
	startTries = 3
	// pollEvery is the pause between two looks at a server that is starting.
	pollEvery = 10 * time.Millisecond
)

// freeAddress finds a port of 127.0.0.1 that nobody uses.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed on the next line
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// portOf is the port of an address that freeAddress made.
func portOf(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return port
}

// tail is the end of a server's log, for the error that says why it did not start.
func tail(path string) string {
	const most = 600
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return "its log is empty"
	}
	return strconv.Quote(string(text[max(0, len(text)-most):]))
}
