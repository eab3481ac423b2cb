package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

func shortest(o any) error {
	if o, ok := o.(*Options); ok {
		o.Window = source.MinWindow
	}
	return nil
}

// sample is one document, with the numbers of the tests' shards in a row.
type sample struct {
	now      string
	started  string
	requests []int
	errors   []int
	busy     []float64
	inUse    []int
	pending  []int
	keys     map[int]string
}

func (s sample) doc() string {
	type m = map[string]any
	var list []m
	for i := range s.requests {
		shard := m{
			"shard": fmt.Sprintf("shard%d", i), "address": fmt.Sprintf("127.0.0.1:%d", 5432+i),
			"requests": s.requests[i], "errors": at(s.errors, i), "busy_seconds": at(s.busy, i),
			"pool": m{"size": 8, "in_use": at(s.inUse, i), "idle": 8 - at(s.inUse, i), "pending": at(s.pending, i), "acquires": s.requests[i], "waits": 0, "wait_seconds": 0, "timeouts": at(s.errors, i)},
		}
		if keys := s.keys[i]; keys != "" {
			shard["top_keys"] = json.RawMessage(keys)
		}
		list = append(list, shard)
	}
	started := s.started
	if started == "" {
		started = "2026-11-30T15:00:00Z"
	}
	b, err := json.Marshal(m{"now": s.now, "started_at": started, "window_seconds": 60, "shards": list})
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func at[T int | float64](v []T, i int) T {
	if i < len(v) {
		return v[i]
	}
	return 0
}

var start = sample{now: "2026-11-30T16:00:00Z", requests: []int{1000, 1000, 1000, 1000}}

func inTurn(docs ...string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		probetest.JSON(docs[min(int(n.Add(1)), len(docs))-1])(w, r)
	}
}

func check(t *testing.T, dbs []database, docs ...string) probes.Evidence {
	t.Helper()
	var api *source.HTTP
	if len(docs) > 0 {
		c := probetest.NewChecker(t, nil)
		c.Serve(source.PathShards, inTurn(docs...))
		api = c.Source(t)
	}
	k := kind(api, dbs)
	p, err := k.New(shortest)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	probetest.Valid(t, k.Facts, ev, err)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestContract(t *testing.T) {
	healthy := start
	healthy.keys = map[int]string{0: `{"since":"2026-11-30T15:59:00Z","total":500,"counters":1000,"keys":[{"key":"love","count":30,"error":2}]}`}
	probetest.Run(t, probetest.Subject{
		Kind:   func(api *source.HTTP) probes.Kind { return Kind(api, nil) },
		Decode: shortest, Docs: map[string]string{source.PathShards: healthy.doc()},
		Allowed: []string{"GET " + source.PathShards}, Requests: 2,
	})
}

func TestEven(t *testing.T) {
	t.Parallel()
	end := sample{now: "2026-11-30T16:00:00.5Z", requests: []int{1100, 1100, 1100, 1100}, busy: []float64{0.1, 0.1, 0.2, 0.1}, inUse: []int{1, 2, 0, 0}}
	ev := check(t, nil, start.doc(), end.doc())
	for name, want := range map[string]float64{
		"shards_total": 4, "failing": 0, "requests_rate": 800, "max_share": 0.25, "max_share_over_even": 1, "max_share_z_score": 0, "error_ratio": 0,
		"latency_max_seconds": 0.002, "latency_median_seconds": 0.001, "latency_skew": 2,
		"pool_in_use_ratio": 0, "pool_pending": 0, "pool_pending_worst": 0, "pool_timeouts_rate": 0, "pool_turnover_rate": 25,
	} {
		probetest.Want(t, ev, name, want)
	}
	probetest.WantAbsent(t, ev, "unreachable", "no Postgres shard is configured")
	probetest.WantMissing(t, ev, "top_key_share", "lists no keys")
	probetest.WantMoot(t, ev, "top_key_excess_share", "spread evenly")
}

func TestHotName(t *testing.T) {
	t.Parallel()
	keys := `{"since":"2026-11-30T15:59:00Z","total":5000,"counters":1000,"keys":[{"key":"love","count":3010,"error":10},{"key":"undefined","count":500,"error":0},{"key":"` + strings.Repeat("x", 300) + `","count":3,"error":1}]}`
	a, b := start, sample{
		now: "2026-11-30T16:00:00.5Z", requests: []int{1100, 1700, 1100, 1100}, busy: []float64{0.1, 7, 0.1, 0.1},
		inUse: []int{1, 8, 0, 1}, pending: []int{0, 5, 0, 1},
	}
	a.inUse, a.pending = []int{1, 8, 1, 0}, []int{0, 9, 1, 0}
	a.keys = map[int]string{1: keys}
	// The newer summary began a moment ago: the older one says more.
	b.keys = map[int]string{1: `{"total":2,"keys":[{"key":"cat","count":2,"error":0}]}`, 0: `{"total":300,"keys":[{"key":"dog","count":19,"error":1},{"key":"eve","count":14,"error":0}]}`}
	ev := check(t, nil, a.doc(), b.doc())
	for name, want := range map[string]float64{
		"max_share": 0.7, "max_share_over_even": 2.8, "max_share_z_score": 1.8 * math.Sqrt(250), "latency_max_seconds": 0.01, "latency_median_seconds": 0.001, "latency_skew": 10,
		"top_key_share": 0.6, "top_key_excess_share": 0.6 / (1 - 1/2.8), "top_keys_excess_share": 1, // (3,000 + 500 + 2)/5,000 is more than it
		"pool_in_use_ratio": 1, "pool_pending": 5, "pool_pending_worst": 5, "pool_turnover_rate": 175, "pools_full": 1, "pools_stuck": 0,
	} {
		probetest.Want(t, ev, name, want)
	}
	var tables []string
	for _, r := range ev.Rows {
		tables = append(tables, fmt.Sprintf("%s %s %.1f", r.Table, r.Key, r.Value))
		if r.Key == "undefined" && !strings.Contains(r.Note, "looks like a constant") {
			t.Errorf("undefined is not marked: %+v", r)
		}
		if r.Key == "love" && (!strings.Contains(r.Note, "shard1: 3000 to 3010 of 5000") || strings.Contains(r.Note, "constant")) {
			t.Errorf("note of love: %q", r.Note)
		}
	}
	got := strings.Join(tables, "; ")
	if strings.Contains(got, "eve") {
		t.Errorf("a key without load is listed: %s", got)
	}
	for _, want := range []string{"shards shard1 0.7", "top keys love 3000.0; top keys undefined 500.0", "top keys dog 18.0"} {
		if !strings.Contains(got, want) {
			t.Errorf("rows: got %s, want %s in it", got, want)
		}
	}
}

// TestStuckPools: two pools are used up, and one of them moves.
func TestStuckPools(t *testing.T) {
	t.Parallel()
	a, b := start, sample{now: "2026-11-30T16:00:00.5Z", requests: []int{1100, 1000, 1100, 1100}}
	a.inUse, a.pending = []int{8, 8, 8, 8}, []int{4, 4, 0, 4}
	b.inUse, b.pending = []int{8, 8, 8, 3}, []int{2, 6, 0, 0}
	ev := check(t, nil, a.doc(), b.doc())
	probetest.Want(t, ev, "pools_full", 2)
	probetest.Want(t, ev, "pools_stuck", 1)
	probetest.WantMoot(t, ev, "pool_wait_seconds", "no request waited")
	probetest.Want(t, ev, "replica_lookups_rate", 0)
	if r := firstRow(ev, "full pools"); r.Key != "shard0" || r.Value != 2 {
		t.Errorf("full pools: got %+v", r)
	}

	// What the documents contradict is neither full nor empty.
	b.inUse = []int{8, 9, 8, 3}
	ev = check(t, nil, a.doc(), b.doc())
	probetest.WantMissing(t, ev, "pools_stuck", "impossible: 9 connections in use")
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	doc := func(now string, lookups int) string {
		return fmt.Sprintf(`{"now":"2026-11-30T16:00:%sZ","started_at":"2026-11-30T15:00:00Z","shards":[{"shard":"shard0","replica":{"lookups":%d}},{"shard":"shard1"}]}`, now, lookups)
	}
	probetest.Want(t, check(t, nil, doc("00", 100), doc("00.5", 150)), "replica_lookups_rate", 100)
	probetest.WantMissing(t, check(t, nil, `{"now":"2026-11-30T16:00:00Z","started_at":"2026-11-30T15:00:00Z","shards":[{"shard":"shard0"},{"shard":"shard1"}]}`,
		doc("00.5", 150)), "replica_lookups_rate", "list of replicas changed")
}

func TestTooFewRequests(t *testing.T) {
	t.Parallel()
	end := sample{now: "2026-11-30T16:00:00.5Z", requests: []int{1009, 1001, 1000, 1000}, errors: []int{9, 0, 0, 0}}
	ev := check(t, nil, start.doc(), end.doc())
	probetest.WantMissing(t, ev, "max_share_over_even", "fewer than 200")
	probetest.WantMissing(t, ev, "latency_skew", "fewer than 20")
	probetest.WantAbsent(t, ev, "failing", "fewer than 10 requests") // nine are too few to tell
	probetest.Want(t, ev, "error_ratio", 0.9)
}

func TestFailingShard(t *testing.T) {
	t.Parallel()
	end := sample{now: "2026-11-30T16:00:00.5Z", requests: []int{1100, 1100, 1100, 1050}, errors: []int{0, 0, 0, 40}}
	ev := check(t, nil, start.doc(), end.doc())
	probetest.Want(t, ev, "failing", 1)
	probetest.Want(t, ev, "error_ratio", 40.0/350)
	probetest.Want(t, ev, "pool_timeouts_rate", 80)
	if got := firstRow(ev, "failing"); got.Key != "shard3" || got.Note != "40 of 50 requests failed" {
		t.Errorf("failing: got %+v", got)
	}
	if got := firstRow(ev, "shards"); got.Key != "shard3" {
		t.Errorf("the first of the shards: got %+v, want the one that fails", got)
	}
	if got := firstRow(ev, "busiest"); got.Key != "" {
		t.Errorf("busiest: got %+v, want none where requests are spread evenly", got)
	}
	// One that only the agent finds dead, under a name of its own.
	ev = check(t, []database{fakeDB{name: "db7", err: source.ErrHung}}, start.doc(), sample{now: "2026-11-30T16:00:00.5Z", requests: []int{1700, 1100, 1100, 1100}}.doc())
	if got := firstRow(ev, "failing"); got.Key != "db7" {
		t.Errorf("failing: got %+v", got)
	}
	if got := firstRow(ev, "busiest"); got.Key != "shard0" {
		t.Errorf("busiest: got %+v", got)
	}
}

func firstRow(ev probes.Evidence, table string) probes.Row {
	for _, r := range ev.Rows {
		if r.Table == table {
			return r
		}
	}
	return probes.Row{}
}

// TestUnknownIsNotZero: a shard about which nothing is told has no share of 0.
func TestUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	ev := check(t, nil, `{"now":"2026-11-30T16:00:00Z","started_at":"2026-11-30T15:00:00Z","shards":[{"shard":"shard0","requests":"many"},{"shard":"shard1","requests":5}]}`)
	for _, r := range ev.Rows {
		if r.Unknown != (r.Key == "shard0") {
			t.Errorf("row: got %+v", r)
		}
	}
}

func TestContradictoryPool(t *testing.T) {
	t.Parallel()
	bad := sample{now: "2026-11-30T16:00:00.5Z", requests: []int{1100, 1100, 1100, 1100}, inUse: []int{0, 9, 0, 0}}
	ev := check(t, nil, start.doc(), bad.doc())
	probetest.WantMissing(t, ev, "pool_in_use_ratio", "impossible: 9 connections in use in a pool of 8")
	probetest.Want(t, ev, "pool_pending", 0)
}

func TestResetAndChangedList(t *testing.T) {
	t.Parallel()
	end := sample{now: "2026-11-30T16:00:00.5Z", started: "2026-11-30T16:00:00Z", requests: []int{5000, 5000, 5000, 5000}}
	ev := check(t, nil, start.doc(), end.doc())
	probetest.WantMissing(t, ev, "requests_rate", "restarted")
	probetest.Want(t, ev, "shards_total", 4)
	end = sample{now: "2026-11-30T16:00:00.5Z", requests: []int{1100, 1100, 1100, 1100, 900}}
	ev = check(t, nil, start.doc(), end.doc())
	probetest.WantMissing(t, ev, "requests_rate", "list of shards changed")
	probetest.Want(t, ev, "shards_total", 5)
	end = sample{now: "2026-11-30T16:00:00.5Z", requests: []int{10, 1100, 1100, 1100}}
	ev = check(t, nil, start.doc(), end.doc())
	probetest.WantMissing(t, ev, "max_share", "went down")
}

type fakeDB struct {
	name string
	err  error
	hang time.Duration
}

func (f fakeDB) Name() string  { return f.name }
func (fakeDB) Address() string { return "127.0.0.1:5432" }
func (f fakeDB) Ping(ctx context.Context, cost *probes.Cost) (time.Duration, error) {
	cost.Queries++
	if f.hang > 0 {
		select {
		case <-time.After(f.hang):
		case <-ctx.Done():
		}
	}
	return time.Millisecond, f.err
}

func TestReach(t *testing.T) {
	t.Parallel()
	up, down := fakeDB{name: "shard0"}, fakeDB{name: "shard1", err: fmt.Errorf("select 1: %w", source.ErrRefused)}
	hung := fakeDB{name: "shard2", err: source.ErrHung, hang: 300 * time.Millisecond}
	denied := fakeDB{name: "shard3", err: source.ErrDenied}
	ev := check(t, []database{up, up}, start.doc())
	probetest.Want(t, ev, "unreachable", 0)
	probetest.Want(t, ev, "ping_seconds", 0.001)
	ev = check(t, []database{up, down, hung, denied}, start.doc())
	probetest.Want(t, ev, "unreachable", 2)
	probetest.WantMissing(t, ev, "ping_seconds", "shard1: select 1: ")
	if ev.Cost.Queries != 5 {
		t.Errorf("queries: got %d, want one on each, and another where it was answered", ev.Cost.Queries)
	}
	probetest.WantMissing(t, check(t, []database{up, denied}, start.doc()), "unreachable", "shard3")

	begin := time.Now()
	ev = check(t, []database{hung, hung, hung, hung, hung})
	if took := time.Since(begin); took > 900*time.Millisecond {
		t.Errorf("five hung shards took %v, want the time of one", took)
	}
	probetest.Want(t, ev, "unreachable", 5)
	probetest.Want(t, ev, "shards_total", 5)
	probetest.WantMissing(t, ev, "requests_rate", "no checker is configured")
	if len(ev.Rows) != 6 { // all of one name: named once as failing
		t.Errorf("rows: got %d, want the shards, and what fails", len(ev.Rows))
	}
}

// dying answers until it has been asked so often.
type dying struct {
	fakeDB
	after atomic.Int64
	last  error
}

func (d *dying) Ping(ctx context.Context, cost *probes.Cost) (time.Duration, error) {
	if d.after.Add(-1) < 0 {
		cost.Queries++
		return 0, d.last
	}
	return d.fakeDB.Ping(ctx, cost)
}

// TestDiesDuringTheRun: a shard that answered at first and no longer does is
// dead; one that could not be asked again, as the run ended, is as it was.
func TestDiesDuringTheRun(t *testing.T) {
	t.Parallel()
	db := &dying{fakeDB: fakeDB{name: "shard0"}, last: fmt.Errorf("select 1: %w", source.ErrHung)}
	db.after.Store(1)
	ev := check(t, []database{db, fakeDB{name: "shard1"}}, start.doc())
	probetest.Want(t, ev, "unreachable", 1)
	probetest.WantMissing(t, ev, "ping_seconds", "shard0: select 1: hung")

	db = &dying{fakeDB: fakeDB{name: "shard0"}, last: source.ErrInterrupted}
	db.after.Store(1)
	ev = check(t, []database{db}, start.doc())
	probetest.Want(t, ev, "unreachable", 0)
	probetest.Want(t, ev, "ping_seconds", 0.001)
}

func TestRealShards(t *testing.T) {
	t.Parallel()
	servers := []*probetest.Server{probetest.Postgres(t), probetest.Postgres(t)}
	var dbs []*source.Postgres
	for i, s := range servers {
		db, err := source.NewPostgres(source.PostgresOptions{
			Name: fmt.Sprintf("shard%d", i), DSN: source.Secret("postgres://postgres@" + s.Addr + "/postgres"), Timeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close(context.WithoutCancel(t.Context())) })
		probetest.Eventually(t, "the shard takes sessions", func() bool { return db.Open(t.Context()) == nil })
		dbs = append(dbs, db)
	}
	k := Kind(nil, dbs)
	p, err := k.New(shortest)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	probetest.Valid(t, k.Facts, ev, err)
	probetest.Want(t, ev, "unreachable", 0)
	if ev.Cost.Queries != 2 || !strings.Contains(ev.Source, "and 1 more") {
		t.Errorf("cost %+v from %q, want a query on each of two shards", ev.Cost, ev.Source)
	}
	servers[1].Kill(t)
	probetest.Eventually(t, "the killed shard is unreachable", func() bool {
		ev, err := p.Check(t.Context())
		n, _ := probetest.Value(ev, "unreachable")
		return err == nil && n == 1
	})
}

func TestSuspicious(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"undefined": true, "NULL": true, "nil": true, "": true, " ": true, "%s": true, "user-%v": true, "<nil>": true, "${name}": true,
		"[object Object]": true, "love": false, "nilsson": false, "nullify": false, "true_crime": false, "anna": false,
	} {
		if got := suspicious(key); got != want {
			t.Errorf("%q: got %v, want %v", key, got, want)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := Kind(nil, nil).New(func(o any) error { o.(*Options).Window = time.Hour; return nil }); err == nil {
		t.Error("window of an hour: got no error")
	}
	if _, err := Kind(nil, nil).New(func(any) error { return errors.New("line 7: no such option") }); err == nil {
		t.Error("an error of decode is lost")
	}
}

// TestOneSample: what stands at both ends of the window cannot be told from one.
func TestOneSample(t *testing.T) {
	t.Parallel()
	full := start
	full.inUse, full.pending = []int{8, 8, 8, 8}, []int{3, 3, 3, 3}
	ev := check(t, nil, full.doc(), "oops")
	for _, name := range []string{"pool_pending", "pool_pending_worst", "pool_in_use_ratio", "pools_full", "pools_stuck"} {
		probetest.WantMissing(t, ev, name, "not a JSON object")
	}
}

// TestFewFailures: of a handful of requests, some of which fail, nothing follows; that
// none failed does, and a shard on which most fail is told whatever the others do.
func TestFewFailures(t *testing.T) {
	t.Parallel()
	f := func(requests, errors []int) probes.Evidence {
		later := sample{now: "2026-11-30T16:00:00.5Z", errors: errors}
		for i, n := range requests {
			later.requests = append(later.requests, start.requests[i]+n)
		}
		return check(t, nil, start.doc(), later.doc())
	}
	probetest.WantAbsent(t, f([]int{100, 100, 100, 6}, []int{0, 0, 0, 6}), "failing", "fewer than 10 requests")
	probetest.Want(t, f([]int{100, 100, 100, 6}, []int{0, 9, 0, 0}), "failing", 0)
	probetest.Want(t, f([]int{100, 100, 100, 6}, []int{0, 90, 0, 6}), "failing", 1)
}
