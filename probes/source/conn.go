package source

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// maxReply bounds what one command may read from a back end. INFO is 8 KB.
const maxReply = 1 << 20

// countedConn counts what goes over a connection and ends an answer that is
// too long.
type countedConn struct {
	net.Conn
	bytes atomic.Int64
	left  atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	if c.left.Load() <= 0 {
		return 0, fail(ErrAnswered, "the answer is larger than 1 MiB")
	}
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	c.left.Add(-int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// begin grants the connection the bytes of one more command and closes it when
// ctx ends before stop is called: a driver that blocks in a read looks at
// nothing else.
func (c *countedConn) begin(ctx context.Context) (stop func() bool) {
	c.left.Store(maxReply)
	return context.AfterFunc(ctx, func() { _ = c.Close() })
}

func dial(ctx context.Context, network, addr string, timeout time.Duration) (*countedConn, error) {
	raw, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &countedConn{Conn: raw}
	c.left.Store(maxReply)
	return c, nil
}
