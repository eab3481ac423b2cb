package source

import (
	"errors"
	"sync"
	"syscall"
)

// noSlot is what a Redis at its maxclients says before it closes a connection.
const noSlot = "-ERR max number of clients"

func errFull() error { return fail(ErrFull, "max number of clients reached") }

// overheard is a connection to a Redis that remembers the first words of the
// server. One without a free slot says so and closes the connection at once,
// which a client that was just writing knows as a broken pipe only.
type overheard struct {
	*countedConn

	mu    sync.Mutex
	first []byte // at most len(noSlot)
}

// Read implements net.Conn.
func (o *overheard) Read(b []byte) (int, error) {
	n, err := o.countedConn.Read(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first = append(o.first, b[:min(n, len(noSlot)-len(o.first))]...)
	return n, err
}

// Write implements net.Conn. What the server had said before it closed the
// connection is still there to be read.
func (o *overheard) Write(b []byte) (int, error) {
	n, err := o.countedConn.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		_, _ = o.Read(make([]byte, len(noSlot))) // returns at once, with what there is
	}
	return n, err
}

// turnedAway reports whether the server had no slot for the connection.
func (o *overheard) turnedAway() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.first) == noSlot
}
