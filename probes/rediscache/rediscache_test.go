package rediscache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

const doc = `{"now":"2026-11-30T16:00:00Z","started_at":"2026-11-30T15:00:00Z","address":"127.0.0.1:6379",
 "pool":{"size":20,"in_use":3,"idle":17,"pending":0,"acquires":12345,"waits":10,"wait_seconds":0.5,"timeouts":7},
 "commands":123456,"errors":4,"busy_seconds":4.5,"lookups":1000,"hits":{"taken":700,"free":100},"misses":200}`

func shortest(o any) error {
	if o, ok := o.(*Options); ok {
		o.Window = source.MinWindow
	}
	return nil
}

func TestContract(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Kind:   func(api *source.HTTP) probes.Kind { return Kind(api, nil) },
		Decode: shortest, Docs: map[string]string{source.PathRedis: doc},
		Allowed: []string{"GET " + source.PathRedis}, Requests: 2,
	})
}

// inTurn serves one document after the other, and the last one for ever.
func inTurn(docs ...string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		i := min(int(n.Add(1)), len(docs))
		probetest.JSON(docs[i-1])(w, r)
	}
}

func check(t *testing.T, api *source.HTTP, s server) probes.Evidence {
	t.Helper()
	k := kind(api, s)
	p, err := k.New(shortest)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	probetest.Valid(t, k.Facts, ev, err)
	return ev
}

func service(t *testing.T, docs ...string) *source.HTTP {
	t.Helper()
	c := probetest.NewChecker(t, nil)
	c.Serve(source.PathRedis, inTurn(docs...))
	return c.Source(t)
}

func edit(s string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(s) }

func TestClientOverTheWindow(t *testing.T) {
	t.Parallel()
	// Half a second later by the service's clock, on which the rates rest.
	later := edit(doc, "16:00:00Z", "16:00:00.5Z", `"in_use":3,"idle":17,"pending":0`, `"in_use":20,"idle":0,"pending":9`,
		`"acquires":12345`, `"acquires":12385`, `"waits":10,"wait_seconds":0.5,"timeouts":7`, `"waits":14,"wait_seconds":0.7,"timeouts":8`,
		`"commands":123456,"errors":4,"busy_seconds":4.5`, `"commands":123656,"errors":24,"busy_seconds":5.5`,
		`"lookups":1000,"hits":{"taken":700,"free":100},"misses":200`, `"lookups":1210,"hits":{"taken":740,"free":110},"misses":350`)
	ev := check(t, service(t, doc, later), nil)
	for name, want := range map[string]float64{
		"hit_ratio": 0.25, "lookups_rate": 420, "command_rate": 400, "command_seconds": 0.005, "errors_rate": 40, "error_ratio": 0.1,
		"pool_size": 20, "pool_in_use": 20, "pool_idle": 0, "pool_pending": 9, "pool_in_use_ratio": 1, "pool_pending_min": 0, "pool_idle_max": 17,
		"pool_waits_rate": 8, "pool_wait_seconds": 0.05, "pool_timeouts_rate": 2, "pool_acquires_rate": 80, "pool_turnover_rate": 4,
	} {
		probetest.Want(t, ev, name, want)
	}
	probetest.WantMissing(t, ev, "reachable", "no Redis server is configured")
	if ev.Window != 500*time.Millisecond || ev.Cost.HTTPRequests != 3 {
		t.Errorf("window %v and cost %+v, want 500ms and 2 requests after one for a snapshot, in vain", ev.Window, ev.Cost)
	}
}

func TestClientCountersReset(t *testing.T) {
	t.Parallel()
	restarted := edit(doc, "15:00:00Z", "15:59:59Z", "123456", "999999")
	ev := check(t, service(t, doc, restarted), nil)
	probetest.WantMissing(t, ev, "command_rate", "restarted")
	probetest.Want(t, ev, "pool_size", 20)
	down := edit(doc, "123456", "5")
	ev = check(t, service(t, doc, down), nil)
	probetest.WantMissing(t, ev, "command_rate", "went down")
	probetest.Want(t, ev, "errors_rate", 0)
	probetest.WantMoot(t, ev, "pool_wait_seconds", "no wait in the window")
}

func TestClientSecondSampleFails(t *testing.T) {
	t.Parallel()
	ev := check(t, service(t, edit(doc, `"pending":0`, `"pending":4`), "oops"), nil)
	probetest.Want(t, ev, "pool_pending", 4)
	for _, name := range []string{"command_rate", "pool_pending_min", "pool_idle_max"} {
		probetest.WantMissing(t, ev, name, "not a JSON object")
	}
}

func TestNoTimeForASecondSample(t *testing.T) {
	t.Parallel()
	p, err := kind(service(t, doc), nil).New(func(any) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	start := time.Now()
	ev, err := p.Check(ctx)
	if err != nil || time.Since(start) > 500*time.Millisecond {
		t.Errorf("got %v after %v, want no wait", err, time.Since(start))
	}
	probetest.WantMissing(t, ev, "command_rate", "deadline")
	probetest.WantMissing(t, ev, "pool_pending_min", "deadline")
	probetest.Want(t, ev, "pool_size", 20)
}

// fake is a server that answers as it is told.
type fake struct {
	infos   []source.Info
	pingErr error
	infoErr error
	calls   int
	// pings are the round trips in turn, the last one for ever; 2 ms if none.
	// failAt is the PING, from 1, from which on pingErr counts.
	pings          []time.Duration
	pinged, failAt int
	// details are what it tells beside INFO; broken tells that every connection
	// is broken when it is used again.
	details   source.Details
	detailErr error
	broken    bool
}

func (*fake) Name() string { return "redis fake" }

func (f *fake) Ping(_ context.Context, cost *probes.Cost) (time.Duration, error) {
	cost.RedisCommands++
	f.pinged++
	took := 2 * time.Millisecond
	if n := len(f.pings); n > 0 {
		took = f.pings[min(f.pinged, n)-1]
	}
	if f.pinged < f.failAt {
		return took, nil
	}
	return took, f.pingErr
}

func (f *fake) PingKept(ctx context.Context, cost *probes.Cost) (time.Duration, error) {
	if f.broken {
		cost.RedisCommands++
		return 0, source.ErrLost
	}
	return f.Ping(ctx, cost)
}

func (f *fake) Info(_ context.Context, cost *probes.Cost) (source.Info, time.Duration, error) {
	cost.RedisCommands++
	if f.broken {
		cost.RedisCommands += 3 // the handshake, and INFO again
	}
	f.calls++
	if f.calls > len(f.infos) {
		return nil, 0, f.infoErr
	}
	return f.infos[f.calls-1], f.pings0(), nil
}

// pings0 is the round trip of an INFO: as quick as the first PING.
func (f *fake) pings0() time.Duration {
	if len(f.pings) > 0 {
		return f.pings[0]
	}
	return 2 * time.Millisecond
}

func (f *fake) Details(_ context.Context, cost *probes.Cost, clients bool) (source.Details, error) {
	cost.RedisCommands += 2
	if clients {
		cost.RedisCommands++
		return f.details, f.detailErr
	}
	d := f.details
	d.Clients = nil
	return d, f.detailErr
}

func TestServerFailures(t *testing.T) {
	t.Parallel()
	info := source.Info{"run_id": "a", "connected_clients": "3"}
	for name, tt := range map[string]struct {
		server    *fake
		reachable float64
		hung      float64
	}{
		"refused":      {&fake{pingErr: fmt.Errorf("ping: %w", source.ErrRefused)}, 0, 0},
		"unreachable":  {&fake{pingErr: source.ErrUnreachable}, 0, 0},
		"hung":         {&fake{pingErr: source.ErrHung}, 0, 1},
		"denied":       {&fake{pingErr: source.ErrDenied}, 1, 0},
		"full":         {&fake{pingErr: source.ErrFull}, 1, 0},
		"dies between": {&fake{infos: []source.Info{info}, infoErr: source.ErrRefused}, 0, 0},
		"hangs later":  {&fake{infos: []source.Info{info}, infoErr: source.ErrHung}, 0, 1},
		"hangs amidst": {&fake{infos: []source.Info{info, info}, pingErr: source.ErrHung, failAt: 4}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := check(t, nil, tt.server)
			probetest.Want(t, ev, "reachable", tt.reachable)
			probetest.Want(t, ev, "hung", tt.hung)
			probetest.Want(t, ev, "turned_away", float64(strings.Count(name, "full")))
			probetest.WantMissing(t, ev, "connected_clients", "")
			probetest.WantMissing(t, ev, "slow_log_share", "")
			probetest.WantMissing(t, ev, "ping_seconds", "")
			if (len(ev.Rows) > 0) != (tt.reachable == 0) {
				t.Errorf("rows: got %+v, want the reason when it is not reachable", ev.Rows)
			}
		})
	}
	p, err := kind(nil, &fake{pingErr: source.ErrInterrupted}).New(shortest)
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := p.Check(t.Context()); err == nil {
		t.Errorf("an interrupted check says something about the server: %+v", ev.Facts)
	}
}

// TestErrorIsAnAnswer: a server that loads its data, or cannot save, answers
// PING with an error and INFO as ever.
func TestErrorIsAnAnswer(t *testing.T) {
	t.Parallel()
	ev := check(t, nil, &fake{infos: pair("loading", "1", "1", "connected_clients", "3", "3"), pingErr: source.ErrAnswered})
	probetest.Want(t, ev, "reachable", 1)
	probetest.Want(t, ev, "ping_seconds", 0.002)
	probetest.Want(t, ev, "connected_clients", 3)
}

func TestServerWithoutALimit(t *testing.T) {
	t.Parallel()
	ev := check(t, nil, &fake{infos: []source.Info{{"used_memory": "5", "maxmemory": "0"}, {"used_memory": "5", "maxmemory": "0"}}})
	probetest.Want(t, ev, "memory_max_bytes", 0)
	probetest.WantMoot(t, ev, "memory_ratio", "unlimited")
	ev = check(t, nil, &fake{infos: []source.Info{{"maxmemory": "9"}, {"maxmemory": "9"}}})
	probetest.WantMissing(t, ev, "memory_ratio", "INFO does not tell it")
}

func TestServerRestarted(t *testing.T) {
	t.Parallel()
	a := source.Info{"run_id": "a", "total_commands_processed": "100", "uptime_in_seconds": "9"}
	b := source.Info{"run_id": "b", "total_commands_processed": "200", "uptime_in_seconds": "1"}
	ev := check(t, nil, &fake{infos: []source.Info{a, b}})
	probetest.WantMissing(t, ev, "commands_rate", "restarted")
	probetest.Want(t, ev, "uptime_seconds", 1)
}

func TestRealServer(t *testing.T) {
	t.Parallel()
	redisServer := probetest.Redis(t, "--maxclients", "50", "--maxmemory", "100mb")
	src, err := source.NewRedis(source.RedisOptions{Addr: redisServer.Addr, Timeout: 400 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	if err := src.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	user := redis.NewClient(&redis.Options{Addr: redisServer.Addr})
	t.Cleanup(func() { _ = user.Close() })
	if err := user.Set(t.Context(), "there", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			key := "there"
			if i%4 == 0 {
				key = "gone"
			}
			if err := user.Get(context.WithoutCancel(t.Context()), key).Err(); err != nil && !errors.Is(err, redis.Nil) {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	k := Kind(nil, src)
	p, err := k.New(func(o any) error { o.(*Options).Window = 2 * time.Second; return nil })
	if err != nil {
		t.Fatal(err)
	}
	var ev probes.Evidence
	probetest.Eventually(t, "500 look-ups come in one window", func() bool {
		ev, err = p.Check(t.Context())
		probetest.Valid(t, k.Facts, ev, err)
		_, enough := probetest.Value(ev, "server_hit_ratio")
		return enough
	})
	close(stop)
	<-done
	probetest.Want(t, ev, "reachable", 1)
	probetest.Want(t, ev, "hung", 0)
	probetest.Want(t, ev, "maxclients", 50)
	probetest.Want(t, ev, "memory_max_bytes", 100<<20)
	probetest.Want(t, ev, "rejected_connections_rate", 0)
	// One look-up in four misses, give or take one at either end of the window.
	if got, _ := probetest.Value(ev, "server_hit_ratio"); got < 0.74 || got > 0.76 {
		t.Errorf("server_hit_ratio: got %v, want 0.75", got)
	}
	if got, _ := probetest.Value(ev, "commands_rate"); got < 200 {
		t.Errorf("commands_rate: got %v, want 500 look-ups in about two seconds", got)
	}
	if ev.Cost.RedisCommands != 11 || ev.Cost.Bytes < 4000 {
		t.Errorf("cost: got %+v, want 6 PINGs, 2 INFOs and the three of details", ev.Cost)
	}

	redisServer.Stop(t)
	ev, err = p.Check(t.Context())
	redisServer.Continue(t)
	probetest.Valid(t, k.Facts, ev, err)
	probetest.Want(t, ev, "reachable", 0)
	probetest.Want(t, ev, "hung", 1)
	if ev.Cost.RedisCommands > 1 {
		t.Errorf("a hung server was asked %d times, want once", ev.Cost.RedisCommands)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, w := range []time.Duration{time.Millisecond, time.Minute, -time.Second} {
		if _, err := Kind(nil, nil).New(func(o any) error { o.(*Options).Window = w; return nil }); err == nil {
			t.Errorf("window %v: got no error", w)
		}
	}
	if _, err := Kind(nil, nil).New(func(any) error { return errors.New("line 7: no such option") }); err == nil {
		t.Error("an error of decode is lost")
	}
}

// TestPingsAreSpread: a server that stalls in bursts is seen to, though its
// first answers are quick.
func TestPingsAreSpread(t *testing.T) {
	t.Parallel()
	info := source.Info{"run_id": "a"}
	const quick, stalled = 177 * time.Microsecond, 110 * time.Millisecond
	ev := check(t, nil, &fake{infos: []source.Info{info, info}, pings: []time.Duration{quick, quick, quick, stalled, quick, 50 * time.Millisecond, quick}})
	probetest.Want(t, ev, "ping_seconds", 177e-6)
	probetest.Want(t, ev, "ping_max_seconds", 0.11)
	probetest.Want(t, ev, "pings_slow", 2)
	if ev.Cost.RedisCommands != 11 {
		t.Errorf("cost: got %+v, want 6 PINGs, 2 INFOs and the three of details", ev.Cost)
	}
}

// TestBudget: a server that closes every connection at once does not make a run
// send more than 12 commands.
func TestBudget(t *testing.T) {
	t.Parallel()
	ev := check(t, nil, &fake{infos: pair("connected_clients", "3", "3"), broken: true, pings: []time.Duration{time.Millisecond}})
	if ev.Cost.RedisCommands > maxCommands {
		t.Errorf("got %d commands", ev.Cost.RedisCommands)
	}
	probetest.Want(t, ev, "connected_clients", 3)
	probetest.Want(t, ev, "ping_seconds", 0.001)
	probetest.Want(t, ev, "reachable", 1)
}

// TestRealStalls holds a real server up in bursts, as a fork or a slow command
// does.
func TestRealStalls(t *testing.T) {
	t.Parallel()
	redisServer := probetest.Redis(t)
	src, err := source.NewRedis(source.RedisOptions{Addr: redisServer.Addr, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	if err := src.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := Kind(nil, src).New(func(o any) error { o.(*Options).Window = 2 * time.Second; return nil })
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			redisServer.Stop(t)
			<-time.After(200 * time.Millisecond)
			redisServer.Continue(t)
			select {
			case <-stop:
				return
			case <-time.After(40 * time.Millisecond):
			}
		}
	}()
	ev, err := p.Check(t.Context())
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	probetest.Want(t, ev, "reachable", 1)
	if got, _ := probetest.Value(ev, "ping_max_seconds"); got < 0.03 {
		t.Errorf("ping_max_seconds: got %v of a server that stands still for 200 ms again and again", got)
	}
}

func TestHoldTime(t *testing.T) {
	t.Parallel()
	// 40 acquires in half a second.
	later := edit(doc, "16:00:00Z", "16:00:00.5Z", `"acquires":12345`, `"acquires":12385`)
	full := []string{`"in_use":3,"idle":17,"pending":0`, `"in_use":4,"idle":0,"pending":9`}
	f := func(want float64, a, b string) {
		t.Helper()
		probetest.Want(t, check(t, service(t, a, b), nil), "pool_hold_seconds", want)
	}
	f(3.0/80, doc, later)
	f(3.5/80, doc, edit(later, full...))
	f(20.0/80, edit(doc, full...), edit(later, full...))
	probetest.WantMoot(t, check(t, service(t, doc, edit(doc, "16:00:00Z", "16:00:00.5Z")), nil), "pool_hold_seconds", "no connection was taken")
}

// TestContradictoryPool: of a pool that says what cannot be nothing is believed.
func TestContradictoryPool(t *testing.T) {
	t.Parallel()
	later := edit(doc, "16:00:00Z", "16:00:00.5Z")
	for _, wrong := range []string{`"in_use":21,"idle":17`, `"in_use":3,"idle":21`} {
		bad := edit(later, `"in_use":3,"idle":17`, wrong)
		ev := check(t, service(t, doc, bad), nil)
		for _, name := range []string{"pool_size", "pool_in_use", "pool_idle", "pool_in_use_ratio", "pool_idle_max", "pool_turnover_rate"} {
			probetest.WantMissing(t, ev, name, "impossible: 21 connections")
		}
		probetest.Want(t, ev, "pool_pending", 0)
		probetest.Want(t, ev, "pool_acquires_rate", 0)
	}
}

// TestNoRoundTripOfRefusedInfo: INFO that is refused has no round trip.
func TestNoRoundTripOfRefusedInfo(t *testing.T) {
	t.Parallel()
	p := &probe{server: &fake{infoErr: fmt.Errorf("info: %w", source.ErrAnswered)}}
	s := p.readInfo(t.Context(), probes.NewRecorder(serverFacts()), []float64{0.002})
	if len(s.pings) != 1 {
		t.Errorf("round trips: got %v, want the one that was", s.pings)
	}
}
