package source_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
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
	i, _, err := r.Info(t.Context(), new(probes.Cost))
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
		if took := time.Since(start); took < 800*time.Millisecond || took > 10*time.Second {
			t.Errorf("kept %v: took %v, want three timeouts", kept, took)
		}
		start = time.Now()
		cost := new(probes.Cost)
		if _, _, err = r.Info(t.Context(), cost); !errors.Is(err, source.ErrHung) || !strings.Contains(err.Error(), "not asked again") {
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
	cost := new(probes.Cost)
	if _, err := r.PingKept(t.Context(), cost); !errors.Is(err, source.ErrLost) || cost.RedisCommands != 1 {
		t.Errorf("ping over the kept connection: got %v at a cost of %+v, want ErrLost and one command", err, *cost)
	}
	if _, err := r.PingKept(t.Context(), cost); !errors.Is(err, source.ErrLost) || cost.RedisCommands != 1 {
		t.Errorf("ping without a connection: got %v at a cost of %+v, want ErrLost and nothing sent", err, *cost)
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
	if _, err := late.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrFull) || source.Dead(err) {
		t.Errorf("no free slot: got %v, want ErrFull, of a server that is not dead", err)
	}
	if got := want(t, info(t, holder), "rejected_connections") - before; got != 1 {
		t.Errorf("rejected connections: got %v, want exactly one attempt by the agent", got)
	}
}

// TestRedisFullBehindTLS: a server without a free slot says so in plain text,
// whatever the client expects.
func TestRedisFullBehindTLS(t *testing.T) {
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
			_, _ = conn.Write([]byte("-ERR max number of clients reached\r\n"))
			_ = conn.Close()
		}
	}()
	r := openRedis(t, source.RedisOptions{Addr: l.Addr().String(), TLS: &tls.Config{ServerName: "redis"}})
	if _, err := r.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}

// TestRedisByTLS: who says no more than that TLS is wanted is let in by a server whose
// certificate is good for the address.
func TestRedisByTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	server, err := miniredis.RunTLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	trust := x509.NewCertPool()
	trust.AddCert(certified.Certificate())
	r := openRedis(t, source.RedisOptions{Addr: server.Addr(), TLS: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}})
	if _, err := r.Ping(t.Context(), new(probes.Cost)); err != nil {
		t.Errorf("got %v, want an answer", err)
	}
}

// TestRedisStall: a server that stands still for longer than the timeout of a
// connection, and goes on, has not hung.
func TestRedisStall(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	r := openRedis(t, source.RedisOptions{Addr: server.Addr, Timeout: 10 * time.Second})
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	time.AfterFunc(1200*time.Millisecond, func() { server.Continue(t) })
	if took, err := r.Ping(t.Context(), new(probes.Cost)); err != nil || took < time.Second {
		t.Errorf("ping: got %v, %v, want an answer after 1.2 s", took, err)
	}
}

func TestRedisDetails(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t, "--slowlog-log-slower-than", "0", "--latency-monitor-threshold", "1")
	user := redis.NewClient(&redis.Options{Addr: server.Addr, ClientName: "worker", PoolSize: 2})
	t.Cleanup(func() { _ = user.Close() })
	if err := user.Set(t.Context(), "name:alice", "taken", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r := openRedis(t, source.RedisOptions{Addr: server.Addr})
	cost := new(probes.Cost)
	d, err := r.Details(t.Context(), cost, true)
	if err != nil || d.SlowErr != nil || d.StallsErr != nil || d.ClientsErr != nil {
		t.Fatalf("got %v, %v, %v, %v", err, d.SlowErr, d.StallsErr, d.ClientsErr)
	}
	if cost.RedisCommands != 5 {
		t.Errorf("cost: got %+v, want the handshake and three commands", *cost)
	}
	i := slices.IndexFunc(d.Slow, func(c source.SlowCommand) bool { return c.Command == "set" })
	if i < 0 || time.Since(d.Slow[i].At).Abs() > time.Minute || d.Slow[i].Took > time.Second {
		t.Errorf("slow log: got %+v, want the SET just sent", d.Slow)
	}
	if strings.Contains(fmt.Sprintf("%+v", d), "alice") {
		t.Errorf("the details hold an argument: %+v", d)
	}
	if !slices.ContainsFunc(d.Clients, func(c source.Client) bool { return c.Name == "worker" && c.Host == "127.0.0.1" && !c.Blocked }) {
		t.Errorf("clients: got %+v, want the worker", d.Clients)
	}
	if d, err := r.Details(t.Context(), cost, false); err != nil || d.Clients != nil || cost.RedisCommands != 7 {
		t.Errorf("without clients: got %+v, %v at a cost of %+v, want two commands more", d.Clients, err, *cost)
	}
}

// TestRedisMinimalUser holds the user of the README to what it says.
func TestRedisMinimalUser(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = admin.Close() })
	all := strings.Fields("+hello +client|setname +ping +info +slowlog|get +latency|latest +client|list")
	for _, without := range []string{"", "+info", "+slowlog|get", "+latency|latest", "+client|list"} {
		name := "diagnose" + strconv.Itoa(len(without))
		rules := []any{"acl", "setuser", name, "on", ">correct-horse", "-@all"}
		for _, rule := range all {
			if rule != without {
				rules = append(rules, rule)
			}
		}
		if err := admin.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		r := openRedis(t, source.RedisOptions{Addr: server.Addr, Username: name, Password: "correct-horse"})
		cost := new(probes.Cost)
		if _, err := r.Ping(t.Context(), cost); err != nil {
			t.Fatalf("without %q: ping: %v", without, err)
		}
		_, _, err := r.Info(t.Context(), cost)
		if refused := without == "+info"; refused != errors.Is(err, source.ErrDenied) || !refused && err != nil {
			t.Errorf("without %q: info: got %v", without, err)
		}
		d, err := r.Details(t.Context(), cost, true)
		if err != nil {
			t.Fatalf("without %q: details: %v", without, err)
		}
		for rule, err := range map[string]error{"+slowlog|get": d.SlowErr, "+latency|latest": d.StallsErr, "+client|list": d.ClientsErr} {
			if refused := without == rule; refused != errors.Is(err, source.ErrDenied) || !refused && err != nil {
				t.Errorf("without %q: %s: got %v", without, rule, err)
			}
		}
		// What is refused costs no connection: during an incident there may be no other.
		if cost.RedisCommands != 7 {
			t.Errorf("without %q: cost %+v, want one handshake, PING, INFO and three details", without, *cost)
		}
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
	if d, err := r.Details(t.Context(), new(probes.Cost), true); err != nil || !errors.Is(d.SlowErr, source.ErrNotOffered) {
		t.Errorf("details: got %v, %v, want no slow log, as it is not offered", err, d.SlowErr)
	}
	if n := i.Number("maxclients"); n.Why() != source.NotInInfo {
		t.Errorf("maxclients: got %v (%s), want unknown", n.Or(-1), n.Why())
	}
	m.SetError("LOADING Redis is loading the dataset in memory")
	if took, err := r.Ping(t.Context(), new(probes.Cost)); !errors.Is(err, source.ErrAnswered) || !strings.Contains(err.Error(), "LOADING") || took <= 0 {
		t.Errorf("error answer: got %v, %v, want how long it took and ErrAnswered with the prefix", took, err)
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
			if _, _, err := r.Info(t.Context(), new(probes.Cost)); err == nil {
				t.Error("got no error")
			}
			if took := time.Since(start); took > 20*time.Second {
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

// TestRedisBusy: a server that a script holds up says so once, and tells all about
// itself afterwards.
func TestRedisBusy(t *testing.T) {
	t.Parallel()
	server := probetest.Redis(t, "--busy-reply-threshold", "1")
	r := openRedis(t, source.RedisOptions{Addr: server.Addr})
	want(t, info(t, r), "uptime_in_seconds")
	user := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = user.Close() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = user.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err()
	}()
	cost := new(probes.Cost)
	probetest.Eventually(t, "the server is busy", func() bool {
		*cost = probes.Cost{}
		_, _, err := r.Info(t.Context(), cost)
		return errors.Is(err, source.ErrAnswered)
	})
	if cost.RedisCommands != 1 {
		t.Errorf("%d commands while it is busy, want one", cost.RedisCommands)
	}
	if err := user.Do(t.Context(), "script", "kill").Err(); err != nil {
		t.Error(err)
	}
	<-done
	if len(info(t, r).Counts("cmdstat_", "calls")) == 0 {
		t.Error("INFO has no statistics of commands any more")
	}
}
