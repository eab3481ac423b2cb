package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

func TestContract(t *testing.T) {
	var known []string
	for _, d := range facts() {
		known = append(known, d.Name)
	}
	probetest.Run(t, probetest.Subject{
		Kind:   func(api *source.HTTP) probes.Kind { return kind(api, []database{well("shard0"), well("shard1")}, nil) },
		Decode: shortest, Docs: map[string]string{source.PathRoute: routes},
		Allowed: []string{"POST " + source.PathRoute}, Requests: 1, Knows: known,
	})
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	a := well("shard0")
	ev := check(t, routes, nil, a, well("shard1"))
	for name, want := range map[string]float64{
		"shards_configured": 2, "shards_asked": 2, "slots_refused": 0, "sessions": 9, "sessions_limit": 97, "sessions_ratio": 9.0 / 97,
		"top_client_share": 8.0 / 9, "lock_waiters": 0, "shards_locked": 0, "idle_transactions": 0, "idle_transaction_seconds": 0, "transaction_seconds": 0.001,
		"busy_sessions": 1, "slow_statements": 0, "service_idle_sessions": 0, "rollbacks_rate": 0, "deadlocks": 0, "read_only": 0, "standbys": 0,
		"replicas": 0, "replay_lag_seconds": 0, "replay_lag_bytes": 0, "sequence_used_ratio": 0.001, "inserts_rate": 0, "failed_inserts_rate": 0,
		"dead_rows_ratio": 0.05, "unindexed_tables": 0, "table_scans": 0, "table_scan_rows": 0, "table_scan_share": 0,
		"names_routed": 4, "names_misplaced": 0, "routing_differs": 0, "bouncers_configured": 0,
	} {
		probetest.Want(t, ev, name, want)
	}
	probetest.WantMoot(t, ev, "blocker_seconds", "nobody waits")
	probetest.WantMoot(t, ev, "bouncer_waiting", "no PgBouncer is configured")
	if ev.Cost.Queries != 14 || a.asked.Load() != 7 {
		t.Errorf("%d queries, %d of them to the first shard; want 7 to each", ev.Cost.Queries, a.asked.Load())
	}
}

func TestNothingConfigured(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	ev := check(t, "", nil)
	probetest.Want(t, ev, "shards_configured", 0)
	probetest.WantAbsent(t, ev, "lock_waiters", "no Postgres shard is configured")
	probetest.WantAbsent(t, ev, "names_misplaced", "no Postgres shard is configured")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v to ask nobody", took)
	}
}

// TestLockQueue: 3 and 4 wait for 2, which waits for 1; the root is 1.
func TestLockQueue(t *testing.T) {
	t.Parallel()
	f := well("shard1")
	for _, at := range []map[string][]source.Record{f.first, f.last} {
		at["sessions"] = append(at["sessions"], source.Record{"client": "checker", "here": "t", "service": "t", "state": "active", "wait": "Lock", "n": "3", "stale": "0", "slow": "3"},
			source.Record{"client": "psql", "here": "t", "state": "idle in transaction", "wait": "Client", "n": "1", "transaction_age": "40", "stale": "1", "slow": "1"})
		at["locks"] = []source.Record{
			{"pid": "1", "client": "psql", "state": "idle in transaction", "transaction_age": "40"},
			{"pid": "2", "client": "migration", "state": "active", "transaction_age": "30", "blockers": "1"},
			{"pid": "3", "client": "checker", "state": "active", "transaction_age": "0.5", "blockers": "2"},
			{"pid": "4", "client": "checker", "state": "active", "transaction_age": "0.5", "blockers": "2 3"},
		}
	}
	f.last["locks"] = f.last["locks"][:3] // one has given up
	ev := check(t, routes, nil, well("shard0"), f)
	for name, want := range map[string]float64{
		"lock_waiters": 2, "shards_locked": 1, "blocker_seconds": 40, "blocker_idle": 1, "idle_transactions": 1, "idle_transaction_seconds": 40,
		"slow_statements": 0,
	} {
		probetest.Want(t, ev, name, want)
	}
	if r := rowOf(ev, tableBlockers); r.Key != "psql" || r.Value != 2 || !strings.Contains(r.Note, "shard1, pid 1, idle in transaction, its transaction is 40.0 s old") {
		t.Errorf("blockers: got %+v", r)
	}
}

// TestQueueThatDrains: those who wait at one end of the window only are no queue.
func TestQueueThatDrains(t *testing.T) {
	t.Parallel()
	f := well("shard0")
	f.first["sessions"] = append(f.first["sessions"], source.Record{"client": "checker", "here": "t", "service": "t", "state": "active", "wait": "Lock", "n": "1"})
	f.first["locks"] = []source.Record{{"pid": "1", "state": "active"}, {"pid": "2", "state": "active", "blockers": "1"}}
	ev := check(t, "", nil, f)
	probetest.Want(t, ev, "lock_waiters", 0)
	probetest.WantMoot(t, ev, "blocker_seconds", "nobody waits")
}

// TestQueueOfOthers: those who wait give up and others come; what they wait for has
// been there all the time.
func TestQueueOfOthers(t *testing.T) {
	t.Parallel()
	behind := func(age string) probes.Evidence {
		f := well("shard0")
		f.last["sessions"] = append(f.last["sessions"], source.Record{"client": "checker", "here": "t", "service": "t", "state": "active", "wait": "Lock", "n": "1"})
		f.last["locks"] = []source.Record{
			{"pid": "1", "client": "psql", "state": "idle in transaction", "transaction_age": age},
			{"pid": "2", "client": "checker", "state": "active", "transaction_age": "0.2", "blockers": "1"},
		}
		return check(t, "", nil, f)
	}
	ev := behind("40")
	probetest.Want(t, ev, "lock_waiters", 1)
	probetest.Want(t, ev, "shards_locked", 1)
	probetest.Want(t, ev, "blocker_seconds", 40)
	probetest.Want(t, behind("0.000001"), "lock_waiters", 0) // they wait for one who came a moment ago
}

func TestRoots(t *testing.T) {
	t.Parallel()
	tree := func(pairs map[string]string) lockTree {
		l := lockTree{sessions: map[string]session{}}
		for pid, blockers := range pairs {
			l.sessions[pid] = session{pid: pid, state: "active", blockers: strings.Fields(blockers)}
		}
		return l
	}
	for _, c := range []struct {
		pairs map[string]string
		want  string
	}{
		{map[string]string{"1": "", "2": "1", "3": "2"}, "map[1:2]"},
		{map[string]string{"1": "2", "2": "1"}, "map[]"},   // a deadlock
		{map[string]string{"0": "", "2": "0"}, "map[0:1]"}, // a prepared transaction
		{map[string]string{"2": "9"}, "map[]"},             // the blocker has gone
	} {
		if got := fmt.Sprint(tree(c.pairs).roots()); got != c.want {
			t.Errorf("%v: got %s, want %s", c.pairs, got, c.want)
		}
	}
}

// TestHalfBlind: a dead shard is left out, one that refuses makes unknown.
func TestHalfBlind(t *testing.T) {
	t.Parallel()
	full := &fake{name: "shard1", err: fmt.Errorf("server: %w", source.ErrNoSlot)}
	hung := &fake{name: "shard2", err: fmt.Errorf("server: %w", source.ErrHung)}
	ev := check(t, "", nil, well("shard0"), full, hung)
	probetest.Want(t, ev, "shards_asked", 1)
	probetest.Want(t, ev, "slots_refused", 1)
	probetest.Want(t, ev, "lock_waiters", 0)
	probetest.WantMissing(t, ev, "names_routed", "no checker is configured")
	if r := rowOf(ev, tableFull); r.Key != "shard1" {
		t.Errorf("full servers: got %+v", r)
	}
	if hung.asked.Load() != 1 {
		t.Errorf("the hung shard was asked %d times, want once", hung.asked.Load())
	}

	denied := &fake{name: "shard1", err: fmt.Errorf("server: %w", source.ErrDenied)}
	ev = check(t, "", nil, well("shard0"), denied)
	probetest.WantMissing(t, ev, "read_only", "shard1: server: denied")

	noRights := well("shard1")
	set(noRights.first, "server", "sees_all", "f", "replicas", "1")
	set(noRights.last, "server", "sees_all", "f", "replicas", "1")
	ev = check(t, "", nil, well("shard0"), noRights)
	probetest.WantMissing(t, ev, "lock_waiters", "shard1: the agent's role does not see what sessions do: GRANT pg_monitor")
	probetest.WantMissing(t, ev, "replay_lag_seconds", "GRANT pg_monitor")
	probetest.Want(t, ev, "read_only", 0)

	half := well("shard0")
	half.errs = map[string]error{"tables": errors.New("tables: SQLSTATE 57014"), "names": errors.New("names: SQLSTATE 55P03")}
	ev = check(t, "", nil, half)
	probetest.WantMissing(t, ev, "table_scans", "57014")
	probetest.WantMissing(t, ev, "table_scan_rows", "57014")
	probetest.Want(t, ev, "lock_waiters", 0)

	dead := &fake{name: "shard0", err: source.ErrRefused}
	ev = check(t, "", nil, dead)
	probetest.WantMissing(t, ev, "sessions_ratio", "shard0: refused")
	probetest.WantMissing(t, ev, "sessions", "shard0: refused")
}

func TestServers(t *testing.T) {
	t.Parallel()
	a, b := well("shard0"), well("shard1")
	set(a.last, "server", "rollbacks", "30", "deadlocks", "2", "sequence_ahead", "160", "read_only", "t", "sequence_used", "0.9")
	for _, at := range []map[string][]source.Record{b.first, b.last} {
		set(at, "server", "standby", "t", "own_lag", "7.5", "replicas", "1", "lag_seconds", "0.2", "lag_bytes", "4096")
	}
	ev := check(t, "", nil, a, b)
	for name, want := range map[string]float64{
		"deadlocks": 2, "read_only": 2, "standbys": 1, "replicas": 1, "replay_lag_seconds": 7.5, "replay_lag_bytes": 4096, "sequence_used_ratio": 0.9,
	} {
		probetest.Want(t, ev, name, want)
	}
	for _, name := range []string{"rollbacks_rate", "sequence_burn_rate"} {
		if v, ok := probetest.Value(ev, name); !ok || v <= 0 {
			t.Errorf("%s: got %v, want it above 0", name, v)
		}
	}
	if r := rowOf(ev, tableReadOnly); r.Key != "shard0" || !strings.Contains(r.Note, "default_transaction_read_only") {
		t.Errorf("read-only: got %+v", r)
	}
	if r := rowOf(ev, tableReplicas); r.Key != "shard1" || r.Value != 7.5 {
		t.Errorf("behind: got %+v", r)
	}

	// What began again from 0 in between has no rates.
	restarted := well("shard0")
	set(restarted.last, "server", "epoch", "9 0")
	ev = check(t, "", nil, restarted)
	probetest.WantMissing(t, ev, "rollbacks_rate", "restarted")
	probetest.Want(t, ev, "read_only", 0)
}

func TestTables(t *testing.T) {
	t.Parallel()
	f := well("shard0")
	f.last["tables"] = append([]source.Record(nil), table("names_00"), table("names_01"))
	// names_00: three scans of 2,000 rows; 60 inserts, of which 50 are rolled back, one update.
	set(f.last, "tables", "scans", "8", "scanned", "6500", "by_index", "1001", "inserted", "160", "dead", "56", "updated", "4", "live", "44", "indexed", "f")
	ev := check(t, "", nil, f)
	for name, want := range map[string]float64{
		"table_scans": 3, "table_scan_rows": 2000, "table_scan_share": 0.75, "unindexed_tables": 1, "dead_rows_ratio": 61.0 / 200,
	} {
		probetest.Want(t, ev, name, want)
	}
	failed, _ := probetest.Value(ev, "failed_inserts_rate")
	inserts, _ := probetest.Value(ev, "inserts_rate")
	if inserts <= 0 || failed < 0.83*inserts || failed > 0.84*inserts {
		t.Errorf("failed inserts %v of %v, want five of six", failed, inserts)
	}
	if r := rowOf(ev, tableScans); r.Key != "public.names_00 on shard0" || !strings.Contains(r.Note, "no valid unique index") {
		t.Errorf("scans: got %+v", r)
	}

	// A vacuum takes dead rows away.
	set(f.last, "tables", "vacuums", "2")
	f.asked.Store(0)
	ev = check(t, "", nil, f)
	probetest.WantMissing(t, ev, "failed_inserts_rate", "vacuumed")
	probetest.Want(t, ev, "table_scans", 3)

	empty := well("shard0")
	empty.first["tables"], empty.last["tables"] = nil, nil
	probetest.WantMissing(t, check(t, "", nil, empty), "unindexed_tables", "no table of names")
}

func TestRouting(t *testing.T) {
	t.Parallel()
	// The second name of shard0 is looked for on shard1; bob of shard1 is on the move.
	ev := check(t, `{"version":4,"shards":["shard0","shard1","shard1",""]}`, nil, well("shard0"), well("shard1"))
	probetest.Want(t, ev, "names_routed", 3)
	probetest.Want(t, ev, "names_misplaced", 1)
	probetest.Want(t, ev, "routing_differs", 2)
	if r := rowOf(ev, tableMisplaced); r.Key != "shard0" || r.Value != 1 {
		t.Errorf("misplaced: got %+v", r)
	}
	for _, r := range ev.Rows {
		if strings.Contains(r.Key+r.Note, "ada") || strings.Contains(r.Key+r.Note, "bob") {
			t.Errorf("a name leaves the probe: %+v", r)
		}
	}
	probetest.WantMissing(t, check(t, `{"version":4,"shards":["shard0"]}`, nil, well("shard0"), well("shard1")), "names_misplaced", "1 answers for 4 names")
	probetest.WantMissing(t, check(t, `{"version":3,"shards":["a","a"]}`, nil, well("shard0")), "names_misplaced", "names none of the shards")

	hidden := well("shard0")
	hidden.last["tables"] = []source.Record{table("names_00")}
	set(hidden.last, "tables", "readable", "f", "routing", "f")
	probetest.WantMissing(t, check(t, routes, nil, hidden), "names_misplaced", "GRANT SELECT")

	keepsNone := well("shard0")
	set(keepsNone.last, "tables", "routing", "f")
	keepsNone.last["tables"] = keepsNone.last["tables"][:1]
	keepsNone.last["names"] = []source.Record{{"name": "ada"}}
	ev = check(t, `{"version":4,"shards":["shard0"]}`, nil, keepsNone)
	probetest.Want(t, ev, "names_misplaced", 0)
	probetest.WantMissing(t, ev, "routing_differs", "keeps no routing table")
}

func TestQueues(t *testing.T) {
	t.Parallel()
	pool := func(waiting, maxwait, us string) map[string][]source.Record {
		return map[string][]source.Record{"show pools": {
			{"database": "pgbouncer", "user": "pgbouncer", "cl_waiting": "0", "sv_active": "0", "sv_idle": "0", "maxwait": "0", "maxwait_us": "0"},
			{"database": "shard0", "user": "app", "cl_waiting": waiting, "sv_active": "2", "sv_idle": "0", "maxwait": maxwait, "maxwait_us": us},
		}}
	}
	console := &turning{fake: fake{name: "bouncer"}, turns: []map[string][]source.Record{pool("10", "1", "250000"), pool("4", "0", "500000")}}
	ev := check(t, "", []database{console}, well("shard0"))
	for name, want := range map[string]float64{"bouncers_configured": 1, "bouncer_waiting": 4, "bouncer_wait_seconds": 0.5, "bouncer_servers": 2} {
		probetest.Want(t, ev, name, want)
	}
	if r := rowOf(ev, tableQueues); r.Key != "shard0 of bouncer" || r.Value != 4 {
		t.Errorf("pooler queues: got %+v", r)
	}
	down := &fake{name: "bouncer", err: source.ErrRefused}
	ev = check(t, "", []database{down}, well("shard0"))
	probetest.WantMissing(t, ev, "bouncer_waiting", "bouncer: refused")
	probetest.Want(t, ev, "lock_waiters", 0)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*Options){
		"window": func(o *Options) { o.Window = time.Hour },
		"tables": func(o *Options) { o.Tables = "names' OR true --" },
		"column": func(o *Options) { o.Column = "a; DROP TABLE x" },
	} {
		_, err := kind(nil, nil, nil).New(func(o any) error { edit(o.(*Options)); return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v", want, err)
		}
	}
	if _, err := kind(nil, nil, nil).New(func(any) error { return errors.New("line 7: no such option") }); err == nil {
		t.Error("an error of decode is lost")
	}
}

// TestForTheRecord: names are sampled and looked for when somebody wants to know.
func TestForTheRecord(t *testing.T) {
	t.Parallel()
	f := func(released bool) (probes.Evidence, *fake) {
		shard := well("shard0")
		checker := probetest.NewChecker(t, map[string]string{source.PathRoute: `{"version":3,"shards":["shard0","shard0"]}`})
		k := kind(checker.Source(t), []database{shard}, nil)
		p, err := k.New(shortest)
		if err != nil {
			t.Fatal(err)
		}
		standby := probes.NewStandby(time.Now().Add(source.MinWindow))
		if released {
			standby.Release()
		}
		ev, err := p.Check(standby.Context(t.Context()))
		probetest.Valid(t, k.Facts, ev, err)
		if standby.Abridged() == released {
			t.Errorf("released %v: abridged is %v", released, standby.Abridged())
		}
		return ev, shard
	}
	ev, shard := f(false)
	probetest.WantMissing(t, ev, "names_misplaced", "for the record")
	probetest.Want(t, ev, "lock_waiters", 0)
	if n := shard.asked.Load(); n != 6 {
		t.Errorf("for the record: %d queries, want 3 at each end", n)
	}
	ev, shard = f(true)
	probetest.Want(t, ev, "names_misplaced", 0)
	if n := shard.asked.Load(); n != 7 {
		t.Errorf("for a run: %d queries, want 7", n)
	}
}

// TestOneSample: what stands at both ends of the window cannot be told from one.
func TestOneSample(t *testing.T) {
	t.Parallel()
	f := well("shard0")
	f.first["sessions"] = append(f.first["sessions"], source.Record{"client": "checker", "here": "t", "state": "active", "wait": "Lock", "n": "1"})
	f.first["locks"] = []source.Record{{"pid": "1", "state": "active"}, {"pid": "2", "state": "active", "blockers": "1"}}
	console := &fake{name: "bouncer", first: map[string][]source.Record{"show pools": {{"database": "shard0", "user": "app", "cl_waiting": "3"}}}}
	p, err := kind(nil, []database{f}, []database{console}).New(shortest)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	ev, err := p.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lock_waiters", "shards_locked", "sessions_ratio", "slow_statements", "replay_lag_seconds", "bouncer_waiting"} {
		probetest.WantMissing(t, ev, name, "no time for a second sample")
	}
	probetest.Want(t, ev, "read_only", 0)
}

// TestDelayedReplica: a replica that is behind is a fault where look-ups go to it.
func TestDelayedReplica(t *testing.T) {
	t.Parallel()
	f := func(lags, doc string) probes.Evidence {
		t.Helper()
		s := well("shard0")
		for _, at := range []map[string][]source.Record{s.first, s.last} {
			set(at, "server", "replicas", "2", "lag_seconds", "3600", "lag_bytes", "4096", "lags", lags)
		}
		checker := probetest.NewChecker(t, map[string]string{source.PathShards: doc, source.PathRoute: `{"shards":["shard0","shard0"]}`})
		k := kind(checker.Source(t), []database{s}, nil)
		p, err := k.New(shortest)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := p.Check(t.Context())
		probetest.Valid(t, k.Facts, ev, err)
		if r := rowOf(ev, tableReplicas); r.Key != "shard0" || r.Value != 3600 {
			t.Errorf("behind: got %+v", r)
		}
		return ev
	}
	const doc = `{"shards":[{"shard":"shard0","replica":{"address":"10.0.0.7:5432","lookups":9}}]}`
	probetest.Want(t, f("10.0.0.7=3600 10.0.0.8=0", doc), "replay_lag_seconds", 3600)
	probetest.Want(t, f("10.0.0.8=3600 10.0.0.7=0.01", doc), "replay_lag_seconds", 0.01)
	probetest.WantMissing(t, f("10.0.0.7=3600 10.0.0.7=0", doc), "replay_lag_seconds", "cannot be told by the address")
	probetest.WantMissing(t, f("local=3600 local=0", doc), "replay_lag_seconds", "cannot be told by the address")
	probetest.Want(t, f("10.0.0.1=3600 10.0.0.2=40", doc), "replay_lag_seconds", 40) // behind another name
	probetest.Want(t, f("10.0.0.1=3600", doc), "replay_lag_seconds", 3600)
	probetest.Want(t, f("10.0.0.7=3600", `{"shards":[{"shard":"shard0"}]}`), "replay_lag_seconds", 0)
	probetest.WantMissing(t, f("10.0.0.7=3600", "oops"), "replay_lag_seconds", "not a JSON object")
}
