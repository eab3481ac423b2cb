package rediscache

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

// pair is INFO twice with the fields given as name, first value, second value.
func pair(fields ...string) []source.Info {
	a, b := source.Info{"run_id": "a"}, source.Info{"run_id": "a"}
	for i := 0; i+2 < len(fields); i += 3 {
		a[fields[i]], b[fields[i]] = fields[i+1], fields[i+2]
	}
	return []source.Info{a, b}
}

// near wants a fact that was divided by the window, which is half a second or,
// on a busy machine, longer.
func near(t *testing.T, ev probes.Evidence, fact string, want float64) {
	t.Helper()
	got, ok := probetest.Value(ev, fact)
	longer := ev.Window.Seconds() / 0.5
	if got *= longer; !ok || got < 0.95*want || got > 1.05*want {
		t.Errorf("%s: got %v over %v, want about %v", fact, got, ev.Window, want)
	}
}

func TestSlowCommand(t *testing.T) {
	t.Parallel()
	// 4 calls of KEYS in 100 ms, 10,000 of GET in 120 ms, one save in the background.
	ev := check(t, nil, &fake{infos: pair(
		"cmdstat_keys", "calls=1,usec=25000", "calls=5,usec=125000",
		"cmdstat_get", "calls=1000,usec=12000,usec_per_call=12.00", "calls=11000,usec=132000,usec_per_call=12.00",
		"cmdstat_bgsave", "calls=1,usec=1", "calls=2,usec=200001",
		"used_cpu_user_main_thread", "1.5", "1.7", "used_cpu_sys_main_thread", "1", "1.05", "used_cpu_user", "7", "9",
	)})
	near(t, ev, "server_cpu_share", 0.5)
	near(t, ev, "slow_command_share", 0.2)
	probetest.Want(t, ev, "slow_command_seconds", 0.025)
	probetest.Want(t, ev, "server_command_seconds", 0.42/10005)

	ev = check(t, nil, &fake{infos: pair("cmdstat_get", "calls=1000,usec=12000", "calls=11000,usec=132000")})
	probetest.Want(t, ev, "slow_command_share", 0)
	probetest.WantMoot(t, ev, "slow_command_seconds", "no command took 10 ms")

	// CONFIG RESETSTAT in between, and a server that does not count.
	ev = check(t, nil, &fake{infos: pair("cmdstat_get", "calls=1000,usec=12000", "calls=10,usec=100")})
	probetest.WantMissing(t, ev, "server_command_seconds", "no commands in the window")
	ev = check(t, nil, &fake{infos: pair("used_cpu_user", "1", "1.1", "used_cpu_sys", "1", "1")})
	probetest.WantAbsent(t, ev, "slow_command_share", "INFO does not tell it")
	near(t, ev, "server_cpu_share", 0.2)
}

func TestPersistence(t *testing.T) {
	t.Parallel()
	ev := check(t, nil, &fake{infos: pair("total_forks", "4", "5", "latest_fork_usec", "1000", "50000",
		"cmdstat_save", "calls=1,usec=1000", "calls=2,usec=51000", "aof_delayed_fsync", "3", "5")})
	probetest.Want(t, ev, "forks", 1)
	probetest.Want(t, ev, "fork_seconds", 0.05)
	near(t, ev, "persistence_share", 0.2)
	probetest.Want(t, ev, "delayed_fsyncs", 2)

	ev = check(t, nil, &fake{infos: pair("total_forks", "0", "0", "latest_fork_usec", "0", "0", "aof_enabled", "0", "0")})
	probetest.Want(t, ev, "persistence_share", 0)
	probetest.WantMoot(t, ev, "fork_seconds", "never forked")
	probetest.Want(t, ev, "delayed_fsyncs", 0)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	ev := check(t, nil, &fake{infos: pair("total_error_replies", "9", "99", "errorstat_OOM", "count=5", "count=45",
		"role", "slave", "slave", "rdb_last_bgsave_status", "ok", "err", "aof_last_write_status", "ok", "ok", "maxmemory_policy", "noeviction", "noeviction")})
	near(t, ev, "oom_errors_rate", 80)
	probetest.Want(t, ev, "misconf_errors_rate", 0)
	probetest.Want(t, ev, "readonly_errors_rate", 0)
	probetest.Want(t, ev, "replica", 1)
	probetest.Want(t, ev, "save_failed", 1)
	probetest.Want(t, ev, "noeviction", 1)
	ev = check(t, nil, &fake{infos: pair("role", "master", "master")})
	probetest.WantAbsent(t, ev, "oom_errors_rate", "INFO does not tell it")
	probetest.WantAbsent(t, ev, "save_failed", "INFO does not tell it")
	probetest.Want(t, ev, "replica", 0)
}

func TestSlowLog(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_796_070_715, 0)
	infos := pair("server_time_usec", "1796070712000000", "1796070715000000", "uptime_in_seconds", "900", "903")
	entry := func(age, took time.Duration, command string) source.SlowCommand {
		return source.SlowCommand{At: now.Add(-age), Took: took, Command: command}
	}
	ev := check(t, nil, &fake{infos: infos, details: source.Details{Slow: []source.SlowCommand{
		entry(time.Second, 2*time.Second, "eval"), entry(5*time.Second, 20*time.Millisecond, "get"),
		entry(20*time.Second, 4*time.Second, "eval"), entry(30*time.Second, time.Second, "bgsave"), entry(2*time.Minute, time.Minute, "keys"),
	}}})
	probetest.Want(t, ev, "slow_log_share", 0.3)
	probetest.Want(t, ev, "slow_log_max_seconds", 4)
	if len(ev.Rows) != 2 || ev.Rows[0].Key != "eval" || !strings.Contains(ev.Rows[0].Note, "2 calls") {
		t.Errorf("rows: got %+v, want eval and get", ev.Rows)
	}

	full := make([]source.SlowCommand, source.SlowLogLength)
	for i := range full {
		full[i] = entry(time.Duration(i)*250*time.Millisecond, 100*time.Millisecond, "keys")
	}
	ev = check(t, nil, &fake{infos: infos, details: source.Details{Slow: full}})
	probetest.Want(t, ev, "slow_log_share", 3.2/7.75)

	ev = check(t, nil, &fake{infos: infos})
	probetest.Want(t, ev, "slow_log_share", 0)
	probetest.WantMoot(t, ev, "slow_log_max_seconds", "nothing of the last 20 s")
	ev = check(t, nil, &fake{infos: infos, details: source.Details{SlowErr: source.ErrDenied}})
	probetest.WantMissing(t, ev, "slow_log_share", "denied")
	ev = check(t, nil, &fake{infos: infos, details: source.Details{SlowErr: source.NotOffered("slowlog: not offered")}})
	probetest.WantAbsent(t, ev, "slow_log_share", "not offered")
	ev = check(t, nil, &fake{infos: infos, detailErr: errors.New("hung")})
	probetest.WantMissing(t, ev, "service_idle", "hung")
}

func TestStalls(t *testing.T) {
	t.Parallel()
	infos := pair("server_time_usec", "1796070712000000", "1796070715000000")
	at := time.Unix(1_796_070_700, 0)
	stalls := []source.Stall{
		{Event: "command", At: at, Took: time.Second},
		{Event: "aof-fsync-always", At: at, Took: 300 * time.Millisecond},
		{Event: "fork", At: at.Add(-time.Hour), Took: 9 * time.Second},
	}
	ev := check(t, nil, &fake{infos: infos, details: source.Details{Stalls: stalls}})
	probetest.Want(t, ev, "persistence_stall_seconds", 0.3)
	ev = check(t, nil, &fake{infos: infos, details: source.Details{Stalls: stalls[:1]}})
	probetest.WantMoot(t, ev, "persistence_stall_seconds", "nothing of the kind")
}

func TestConnections(t *testing.T) {
	t.Parallel()
	named := edit(doc, `"address"`, `"client_name":"checker-1","address"`)
	client := func(name string, idle time.Duration, blocked bool) source.Client {
		return source.Client{Host: "10.0.0.7", Name: name, Idle: idle, Blocked: blocked}
	}
	list := []source.Client{
		client("checker-1", 0, false), client("checker-1", 3*time.Second, false), client("checker-1", 9*time.Second, true),
		client("checker-1", 2*time.Second, true), client("checker-2", time.Hour, false), client("", 0, true),
	}
	infos := pair("connected_clients", "6", "6")
	ev := check(t, service(t, named, named), &fake{infos: infos, details: source.Details{Clients: list}})
	probetest.Want(t, ev, "service_connections", 4)
	probetest.Want(t, ev, "service_blocked", 2)
	probetest.Want(t, ev, "service_idle", 1)
	if len(ev.Rows) != 3 || ev.Rows[0].Key != "checker-1 10.0.0.7" || ev.Rows[0].Value != 4 {
		t.Errorf("rows: got %+v, want the connections by who they are", ev.Rows)
	}

	ev = check(t, service(t, doc, doc), &fake{infos: infos, details: source.Details{Clients: list}})
	probetest.WantMissing(t, ev, "service_idle", "does not tell the name")
	small := edit(named, `"size":20,"in_use":3,"idle":17`, `"size":2,"in_use":1,"idle":1`)
	ev = check(t, service(t, small, small), &fake{infos: infos, details: source.Details{Clients: list}})
	probetest.Want(t, ev, "service_connections", 4)
	probetest.WantMissing(t, ev, "service_idle", "others use it as well")
	other := edit(named, "checker-1", "nobody")
	ev = check(t, service(t, other, other), &fake{infos: infos, details: source.Details{Clients: list}})
	probetest.WantMissing(t, ev, "service_idle", "no connection of the server has the name")
	ev = check(t, service(t, named, named), &fake{infos: pair("connected_clients", "6", "1001"), details: source.Details{Clients: list}})
	probetest.WantMissing(t, ev, "service_idle", "more than 1,000 connections are not listed")
	if ev.Cost.RedisCommands != 10 {
		t.Errorf("cost: got %+v, want no CLIENT LIST", ev.Cost)
	}
}

func TestDialsAndAnswers(t *testing.T) {
	t.Parallel()
	first := edit(doc, `"timeouts":7`, `"timeouts":7,"dials":40`)
	later := edit(first, "16:00:00Z", "16:00:00.5Z", `"dials":40`, `"dials":50`)
	ev := check(t, service(t, first, later), nil)
	probetest.Want(t, ev, "pool_dials_rate", 20)
	if got, ok := probetest.Value(ev, "service_answer_seconds"); !ok || got <= 0 {
		t.Errorf("service_answer_seconds: got %v, %v", got, ok)
	}
	probetest.WantMissing(t, check(t, service(t, doc, doc), nil), "pool_dials_rate", "left out")
}

// TestRealRefusals makes a real server refuse writes in the three ways there are.
func TestRealRefusals(t *testing.T) {
	t.Parallel()
	master := probetest.Redis(t)
	for fact, setting := range map[string][]any{
		"oom_errors_rate":      {"config", "set", "maxmemory", "1mb", "maxmemory-policy", "noeviction"},
		"readonly_errors_rate": append([]any{"replicaof"}, hostPort(master.Addr)...),
	} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			server := probetest.Redis(t)
			src, err := source.NewRedis(source.RedisOptions{Addr: server.Addr, Timeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(src.Close)
			user := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
			t.Cleanup(func() { _ = user.Close() })
			if err := user.Do(t.Context(), setting...).Err(); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			stop := make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
						// It is meant to be refused.
						_ = user.Set(t.Context(), fmt.Sprint("k", i), strings.Repeat("x", 1000), 0).Err()
					}
				}
			}()
			p, err := Kind(nil, src).New(func(o any) error { o.(*Options).Window = time.Second; return nil })
			if err != nil {
				t.Fatal(err)
			}
			probetest.Eventually(t, "the server counts refused writes", func() bool {
				ev, err := p.Check(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got, _ := probetest.Value(ev, fact)
				return got > 0
			})
			close(stop)
			<-done
		})
	}
}

// hostPort is an address as REPLICAOF takes it.
func hostPort(addr string) []any {
	host, port, _ := strings.Cut(addr, ":")
	return []any{host, port}
}
