package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// serve runs a TCP server for the length of the test.
func serve(t *testing.T, handle func(net.Conn)) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				handle(conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

func startProxy(t *testing.T, target string) *DelayProxy {
	t.Helper()
	p, err := NewDelayProxy(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func TestDelayProxyDelaysEachWay(t *testing.T) {
	t.Parallel()
	arrived := make(chan time.Time, 1)
	proxy := startProxy(t, serve(t, func(conn net.Conn) {
		b := make([]byte, 1)
		for {
			if _, err := conn.Read(b); err != nil {
				return
			}
			arrived <- time.Now()
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	}))
	conn := dial(t, proxy.Addr())
	f := func(toTarget, toClient time.Duration) {
		t.Helper()
		proxy.SetDelay(toTarget, toClient)
		sent := time.Now()
		if _, err := conn.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		back, there := time.Now(), <-arrived
		if got := there.Sub(sent); got < toTarget || got > toTarget+2*time.Second {
			t.Errorf("delay %v to the target took %v", toTarget, got)
		}
		if got := back.Sub(there); got < toClient || got > toClient+2*time.Second {
			t.Errorf("delay %v to the client took %v", toClient, got)
		}
	}
	f(0, 0)
	f(120*time.Millisecond, 0)
	f(0, 120*time.Millisecond)
	f(60*time.Millisecond, 120*time.Millisecond)
	f(0, 0)
}

// TestDelayProxyKeepsOrder sends much through many connections while the delay jumps about.
func TestDelayProxyKeepsOrder(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, serve(t, echo))
	ctx, stop := context.WithCancel(t.Context())
	var jumps sync.WaitGroup
	jumps.Go(func() {
		for ctx.Err() == nil {
			proxy.SetDelay(time.Duration(rand.IntN(3))*time.Millisecond, time.Duration(rand.IntN(3))*time.Millisecond)
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	var all sync.WaitGroup
	for i := range 8 {
		conn := dial(t, proxy.Addr())
		all.Go(func() {
			sent := make([]byte, 600_000+i)
			for j := range sent {
				sent[j] = byte(rand.Uint32())
			}
			var writer sync.WaitGroup
			writer.Go(func() {
				if _, err := io.Copy(conn, bytes.NewReader(sent)); err != nil {
					t.Errorf("write: %v", err)
				}
				if err := conn.CloseWrite(); err != nil { // the echo ends only when this end arrives
					t.Errorf("close: %v", err)
				}
			})
			got, err := io.ReadAll(conn)
			writer.Wait()
			if err != nil || sha256.Sum256(got) != sha256.Sum256(sent) {
				t.Errorf("sent %d bytes, got %d others back, %v", len(sent), len(got), err)
			}
		})
	}
	all.Wait()
	stop()
	jumps.Wait()
}

func TestDelayProxyCutsOff(t *testing.T) {
	t.Parallel()
	f := func(what string, p *DelayProxy, conn net.Conn) {
		t.Helper()
		var timeout net.Error
		if n, err := conn.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s: read %d bytes, %v, want the connection cut", what, n, err)
		}
		p.Close() // must return: nothing may hang in it
	}

	nobody, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, nobody)
	f("nobody at the target", p, dial(t, p.Addr()))

	p = startProxy(t, serve(t, func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) })) // resets at once
	f("target that resets", p, dial(t, p.Addr()))

	// What is held back for an hour does not hold up the end.
	p = startProxy(t, serve(t, echo))
	p.SetDelay(time.Hour, time.Hour)
	conn := dial(t, p.Addr())
	if _, err := fmt.Fprint(conn, "love"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	f("closed proxy", p, conn)
	if !refuses(t, p.Addr()) {
		t.Error("a closed proxy takes connections")
	}
}
