package source_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

func openRedis(t *testing.T, o source.RedisOptions) *source.Redis {
	t.Helper()
	r, err := source.NewRedis(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func info(t *testing.T, r *source.Redis) source.Info {
	t.Helper()
	i, err := r.Info(t.Context(), new(probes.Cost))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func want(t *testing.T, i source.Info, field string) float64 {
	t.Helper()
	v, ok := i.Number(field).Get()
	if !ok {
		t.Fatalf("INFO %s: %s", field, i.Number(field).Why())
	}
	return v
}

func TestRedisKeepsOneConnectionAndCountsItsCommands(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	r := openRedis(t, source.RedisOptions{Addr: server.Addr})
	cost := new(probes.Cost)
	for range 3 {
		if took, err := r.Ping(t.Context(), cost); err != nil || took <= 0 || took > time.Second {
			t.Fatalf("ping: got %v, %v", took, err)
		}
	}
	// The start helper connected once to see whether the server is up, and
	// total_commands_processed does not count the INFO under way.
	i := info(t, r)
	if got := want(t, i, "total_connections_received"); got > 2 {
		t.Errorf("connections received: got %v, want the helper's and the agent's", got)
	}
	if got := want(t, i, "total_commands_processed"); got != float64(cost.RedisCommands) {
		t.Errorf("commands: server saw %v, cost says %d", got, cost.RedisCommands)
	}
	if cost.RedisCommands != 5 || cost.Bytes == 0 {
		t.Errorf("cost of three pings on a new connection: got %+v, want 2 + 3 commands and some bytes", *cost)
	}
	for _, field := range []string{"maxclients", "used_memory", "uptime_in_seconds", "keyspace_hits"} {
		want(t, i, field)
	}
}

func TestRedisNamesItsConnection(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	r := openRedis(t, source.RedisOptions{Addr: server.Addr})
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = other.Close() }()
	list, err := other.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(list, "name=diagnose"); got != 1 {
		t.Errorf("connections named diagnose: got %d, want 1 in:\n%s", got, list)
	}
}

func TestRedisHung(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	for _, kept := range []bool{true, false} {
		r := openRedis(t, source.RedisOptions{Addr: server.Addr, Timeout: 300 * time.Millisecond})
		if kept {
			if err := r.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		server.Stop(t)
		start := time.Now()
		_, err := r.Ping(t.Context(), new(probes.Cost))
		if !errors.Is(err, source.ErrHung) {
			t.Errorf("kept %v: got %v, want ErrHung", kept, err)
		}
		if took := time.Since(start); took > 600*time.Millisecond {
			t.Errorf("kept %v: took %v, want one timeout", kept, took)
		}
		start = time.Now()
		cost := new(probes.Cost)
		if _, err = r.Info(t.Context(), cost); !errors.Is(err, source.ErrHung) || !strings.Contains(err.Error(), "not asked again") {
			t.Errorf("kept %v: second call: got %v, want the circuit's reason", kept, err)
		}
		if took := time.Since(start); took > 50*time.Millisecond || *cost != (probes.Cost{}) {
			t.Errorf("kept %v: second call took %v and cost %+v, want nothing", kept, took, *cost)
		}
		server.Continue(t)
	}
}

func TestRedisRefusedThenBack(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	r := openRedis(t, source.RedisOptions{Addr: server.Addr})
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	if _, err := r.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrRefused) {
		t.Errorf("killed server: got %v, want ErrRefused", err)
	}
	server.Start(t)
	probetest.Eventually(t, "the agent reaches the restarted server", func() bool {
		_, err := r.Ping(t.Context(), new(probes.Cost))
		return err == nil
	})
}

func TestRedisRedialsABrokenConnectionOnce(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	r := openRedis(t, source.RedisOptions{Addr: server.Addr})
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := want(t, info(t, r), "total_connections_received")
	other := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1})
	defer func() { _ = other.Close() }()
	if err := other.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Ping(t.Context(), new(probes.Cost)); err != nil {
		t.Fatalf("ping over a connection that the server closed: %v", err)
	}
	if got := want(t, info(t, r), "total_connections_received") - before; got != 2 {
		t.Errorf("new connections: got %v, want the other's and one of the agent's", got)
	}
}

func TestRedisMaxClients(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t, "--maxclients", "1")
	var holder *source.Redis
	probetest.Eventually(t, "the only slot is free", func() bool {
		holder = openRedis(t, source.RedisOptions{Addr: server.Addr})
		return holder.Open(t.Context()) == nil
	})
	before := want(t, info(t, holder), "rejected_connections")
	late := openRedis(t, source.RedisOptions{Addr: server.Addr})
	if _, err := late.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrRefused) {
		t.Errorf("no free slot: got %v, want ErrRefused", err)
	}
	if got := want(t, info(t, holder), "rejected_connections") - before; got != 1 {
		t.Errorf("rejected connections: got %v, want exactly one attempt by the agent", got)
	}
}

func TestRedisDenied(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t, "--requirepass", "correct-horse")
	for _, password := range []source.Secret{"", "wrong-battery"} {
		r := openRedis(t, source.RedisOptions{Addr: server.Addr, Password: password})
		_, err := r.Ping(t.Context(), new(probes.Cost))
		if !errors.Is(err, source.ErrDenied) {
			t.Errorf("password %q: got %v, want ErrDenied", string(password), err)
		}
		if err != nil && strings.Contains(err.Error(), "wrong-battery") {
			t.Errorf("the error holds the password: %v", err)
		}
	}
	r := openRedis(t, source.RedisOptions{Addr: server.Addr, Password: "correct-horse"})
	if _, err := r.Ping(t.Context(), new(probes.Cost)); err != nil {
		t.Errorf("right password: %v", err)
	}
}

func TestRedisReturnsOnCancel(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	r := openRedis(t, source.RedisOptions{Addr: server.Addr, Timeout: 20 * time.Second})
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	defer server.Continue(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	_, err := r.Ping(ctx, new(probes.Cost))
	if !errors.Is(err, source.ErrInterrupted) {
		t.Errorf("got %v, want ErrInterrupted", err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("returned %v after the call, want promptly after the cancel", took)
	}
	server.Continue(t)
	if _, err := r.Ping(t.Context(), new(probes.Cost)); err != nil {
		t.Errorf("an interrupted call must not open the circuit: %v", err)
	}
}

func TestRedisUnreachable(t *testing.T) {
	t.Parallel()
	// 192.0.2.0/24 is set aside for documentation (RFC 5737): nobody is there.
	r := openRedis(t, source.RedisOptions{Addr: "192.0.2.1:6379", Timeout: 200 * time.Millisecond})
	if _, err := r.Ping(t.Context(), new(probes.Cost)); !source.Dead(err) || errors.Is(err, source.ErrHung) {
		t.Errorf("got %v, want a dead target that is not hung", err)
	}
	if _, err := source.NewRedis(source.RedisOptions{Addr: "no-port"}); err == nil {
		t.Error("address without port: got no error")
	}
}

func TestRedisUnderstandsMiniredis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	r := openRedis(t, source.RedisOptions{Addr: m.Addr()})
	if _, err := r.Ping(t.Context(), new(probes.Cost)); err != nil {
		t.Fatal(err)
	}
	i := info(t, r)
	if got := want(t, i, "connected_clients"); got != 1 {
		t.Errorf("connected clients: got %v, want 1", got)
	}
	if n := i.Number("maxclients"); n.Why() != "the server's INFO does not tell it" {
		t.Errorf("maxclients: got %v (%s), want unknown", n.Or(-1), n.Why())
	}
	m.SetError("LOADING Redis is loading the dataset in memory")
	if _, err := r.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrAnswered) || !strings.Contains(err.Error(), "LOADING") {
		t.Errorf("error answer: got %v, want ErrAnswered with the prefix", err)
	}
}

// Whatever a server sends in the place of an answer ends in an error, in time.
func TestRedisSurvivesNonsense(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"http":     "HTTP/1.1 400 Bad Request\r\n\r\n",
		"huge":     "$536870912\r\n" + strings.Repeat("x", 2<<20),
		"negative": "$-7\r\n",
		"closed":   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Write([]byte(answer))
					_ = conn.Close()
				}
			}()
			r := openRedis(t, source.RedisOptions{Addr: l.Addr().String(), Timeout: 500 * time.Millisecond})
			start := time.Now()
			if _, err := r.Info(t.Context(), new(probes.Cost)); err == nil {
				t.Error("got no error")
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add("# Clients\r\nconnected_clients:3\r\nmaxclients:10000\r\n")
	f.Add("a:1\na:2\n:3\nb\nc:-1\nd:1e999\ne:NaN")
	f.Fuzz(func(t *testing.T, text string) {
		for field := range source.ParseInfo(text) {
			n := source.ParseInfo(text).Number(field)
			if v, ok := n.Get(); ok && !(v >= 0) {
				t.Errorf("%q: got %v, want no negative number or NaN", field, v)
			}
		}
	})
}
