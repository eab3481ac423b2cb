package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// DelayProxy forwards TCP connections to a target and delays what they carry, each direction by its own time. Order and
// content are kept. It is safe for concurrent use.
type DelayProxy struct {
	target   string
	listener net.Listener
	ctx      context.Context // ends with the proxy; every forwarding goroutine watches it
	cancel   context.CancelFunc
	running  sync.WaitGroup

	toTarget, toClient atomic.Int64 // nanoseconds
}

const (
	// chunkBytes is the most that is read at once, chunksInFlight how many such pieces a direction of a connection may hold:
	// 1 MiB. Beyond that the sender waits, as on a real network whose window is full.
	chunkBytes     = 16 << 10
	chunksInFlight = 64
)

// NewDelayProxy listens on a free port of 127.0.0.1 and forwards to target, without a delay at first. It ends with ctx.
func NewDelayProxy(ctx context.Context, target string) (*DelayProxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &DelayProxy{target: target, listener: listener}
	p.ctx, p.cancel = context.WithCancel(ctx)
	context.AfterFunc(p.ctx, func() { _ = listener.Close() }) // the second close, if any, has nothing to tell
	p.running.Go(p.accept)
	return p, nil
}

// Addr is the host:port to connect to.
func (p *DelayProxy) Addr() string { return p.listener.Addr().String() }

// SetDelay sets how long what arrives from now on is held back on its way to the target and to the client. Opening a
// connection is not delayed.
func (p *DelayProxy) SetDelay(toTarget, toClient time.Duration) {
	p.toTarget.Store(int64(toTarget))
	p.toClient.Store(int64(toClient))
}

// Close cuts all connections and stops listening. It returns when nothing of the proxy runs any more.
func (p *DelayProxy) Close() {
	p.cancel()
	p.running.Wait()
}

func (p *DelayProxy) accept() {
	for {
		client, err := p.listener.Accept()
		switch {
		case p.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				_ = client.Close() // came in the moment of closing
			}
			return
		case err != nil: // such as too many open files
			select {
			case <-time.After(pollEvery):
			case <-p.ctx.Done():
			}
			continue
		}
		p.running.Go(func() { p.forward(client) })
	}
}

// forward serves one connection until both directions have ended, one has failed, or the proxy closes. When the target
// cannot be reached the client is cut off.
func (p *DelayProxy) forward(client net.Conn) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	defer client.Close() //nolint:errcheck // what could not be sent is lost either way

	var dialer net.Dialer
	target, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	stopTarget := context.AfterFunc(ctx, func() { _ = target.Close() })
	defer stopTarget()
	defer target.Close() //nolint:errcheck // as above

	var both sync.WaitGroup
	both.Go(func() { pipe(ctx, cancel, client, target, &p.toTarget) })
	both.Go(func() { pipe(ctx, cancel, target, client, &p.toClient) })
	both.Wait()
}

// piece is what was read at once, or the end of the stream, and when it is due.
type piece struct {
	due   time.Time
	bytes []byte
	end   bool
}

// pipe carries one direction: one goroutine reads without waiting, this one writes each piece when it is due. The end of
// the stream is passed on in its turn. When either fails, fail cuts the connection.
func pipe(ctx context.Context, fail context.CancelFunc, from, to net.Conn, delay *atomic.Int64) {
	pieces := make(chan piece, chunksInFlight)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer close(pieces)
		if err := read(ctx, from, delay, pieces); err != nil {
			fail()
		}
	})
	if err := write(ctx, to, pieces); err != nil {
		fail()
	}
}

func read(ctx context.Context, from net.Conn, delay *atomic.Int64, pieces chan<- piece) error {
	buffer := make([]byte, chunkBytes)
	for {
		n, err := from.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		next := piece{due: time.Now().Add(time.Duration(delay.Load())), bytes: bytes.Clone(buffer[:n]), end: err != nil}
		select {
		case pieces <- next:
		case <-ctx.Done():
			return ctx.Err()
		}
		if next.end {
			return nil
		}
	}
}

func write(ctx context.Context, to net.Conn, pieces <-chan piece) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := range pieces {
		timer.Reset(time.Until(next.due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := to.Write(next.bytes); err != nil {
			return err
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok && next.end {
			return half.CloseWrite()
		}
	}
	return nil
}
