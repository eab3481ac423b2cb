package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/pflag"

	"github.com/regpath/diagnose/probes"
)

// targetOf is the target that the flags give.
func targetOf(t *testing.T, args ...string) *target {
	t.Helper()
	var f targetFlags
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	config, err := f.target()
	if err != nil {
		t.Fatal(err)
	}
	target, err := newTarget(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.close(context.WithoutCancel(t.Context())) })
	return target
}

// TestCredentialsByFlags: a service and a Redis that ask who is there let in those who
// say it by flags, and nobody else.
func TestCredentialsByFlags(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+canary {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(service.Close)
	redis := miniredis.RunT(t)
	redis.RequireUserAuth("ops", canary)
	file := write(t, "secret", canary+"\n")
	f := func(welcome bool, args ...string) {
		t.Helper()
		target := targetOf(t, append(args, "--checker", service.URL, "--redis", redis.Addr())...)
		var doc struct{}
		if err := target.checker.Get(t.Context(), new(probes.Cost), "/", nil, &doc); (err == nil) != welcome {
			t.Errorf("%q: the service says %v", args, err)
		}
		if err := target.redis.Open(t.Context()); (err == nil) != welcome {
			t.Errorf("%q: Redis says %v", args, err)
		}
	}
	f(true, "--checker-token-file", file, "--redis-username", "ops", "--redis-password-file", file)
	f(false, "--redis-password-file", file)
}

// TestRedisTLSByFlag: with --redis-tls the first that a Redis hears is a handshake.
func TestRedisTLSByFlag(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	first := make(chan byte, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		b := make([]byte, 1)
		_, _ = conn.Read(b)
		first <- b[0]
		_ = conn.Close()
	}()
	target := targetOf(t, "--checker", "http://127.0.0.1:1", "--redis", l.Addr().String(), "--redis-tls")
	if err := target.redis.Open(t.Context()); err == nil {
		t.Error("got no error from a server that hangs up")
	}
	if got, handshake := <-first, byte(22); got != handshake {
		t.Errorf("the first byte is %d, want %d, that of a TLS handshake", got, handshake)
	}
}
