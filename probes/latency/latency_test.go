package latency

import (
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

const zero = `{"now":"2026-11-30T16:00:00Z","started_at":"2026-11-30T15:00:00Z","le":[0.001,0.01,0.1],"endpoints":[
 {"endpoint":"check","requests":5000,"errors":1,"busy_seconds":10,"counts":[4900,50,40,10],
  "answered_by":{"bloom":4000,"local":500,"redis":300,"shard":200},
  "layers":[{"layer":"redis","calls":500,"busy_seconds":1},{"layer":"shard","calls":200,"busy_seconds":2}]},
 {"endpoint":"register","requests":300,"errors":0,"busy_seconds":3,"counts":[0,100,200,0],
  "layers":[{"layer":"id","calls":300,"busy_seconds":0},{"layer":"shard","calls":300,"busy_seconds":2},
   {"layer":"redis","calls":290,"busy_seconds":0.5},{"layer":"followup","calls":0,"busy_seconds":0}]}],
 "lookups":{"found":150,"missing":50},"scheduling":{"stalls":10,"stalled_seconds":1}}`

// later is a second and a thousand checks and a hundred registrations on.
const later = `{"now":"2026-11-30T16:00:01Z","started_at":"2026-11-30T15:00:00Z","le":[0.001,0.01,0.1],"endpoints":[
 {"endpoint":"check","requests":6000,"errors":21,"busy_seconds":20,"counts":[5400,450,135,15],
  "answered_by":{"bloom":4600,"local":600,"redis":400,"shard":400},
  "layers":[{"layer":"redis","calls":700,"busy_seconds":3},{"layer":"shard","calls":400,"busy_seconds":8}]},
 {"endpoint":"register","requests":400,"errors":0,"busy_seconds":53,"counts":[0,100,200,100],
  "layers":[{"layer":"id","calls":400,"busy_seconds":0},{"layer":"shard","calls":400,"busy_seconds":4},
   {"layer":"redis","calls":390,"busy_seconds":1},{"layer":"followup","calls":100,"busy_seconds":45}]}],
 "lookups":{"found":200,"missing":200},"scheduling":{"stalls":15,"stalled_seconds":1.5}}`

func quick(into any) error { into.(*Options).Window = source.MinWindow; return nil }

func check(t *testing.T, docs ...string) probes.Evidence {
	t.Helper()
	c := probetest.NewChecker(t, nil)
	var asked atomic.Int64
	c.Serve(source.PathLatency, func(w http.ResponseWriter, r *http.Request) {
		probetest.JSON(docs[min(int(asked.Add(1)), len(docs))-1])(w, r)
	})
	kind := Kind(c.Source(t))
	p, err := kind.New(quick)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	probetest.Valid(t, kind.Facts, ev, err)
	return ev
}

func TestContract(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Kind: Kind, Decode: quick, Docs: map[string]string{source.PathLatency: later},
		Allowed: []string{"GET " + source.PathLatency}, Requests: 2,
	})
}

func TestWhichLayerMoved(t *testing.T) {
	t.Parallel()
	ev := check(t, zero, later)
	for name, want := range map[string]float64{
		"check_seconds": 0.01, "check_error_ratio": 0.02, "check_redis_share": 0.2, "check_shard_share": 0.6,
		"bloom_answers_share": 0.6, "local_answers_share": 0.1, "redis_answers_share": 0.1, "shard_answers_share": 0.2,
		"lookups_missing_share": 0.75, "register_seconds": 0.5, "register_error_ratio": 0, "register_shard_share": 0.04,
		"register_redis_share": 0.01, "register_followup_share": 0.9, "register_followup_seconds": 0.45,
		// Of 1,000 checks 500 are within 1 ms, 400 within 10, 95 within 100, 5 above.
		"check_p50_seconds": 0.001, "check_p99_seconds": 0.01 + 0.09*90.0/95, "register_p99_seconds": 0.1,
		"stalled_share": 0.5, "stall_seconds": 0.1,
	} {
		if got, ok := probetest.Value(ev, name); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s = %v, %t, want %v", name, got, ok, want)
		}
	}
	if rate, _ := probetest.Value(ev, "check_rate"); rate < 900 || rate > 2500 {
		t.Errorf("check_rate = %v, want about 1000 per second", rate)
	}
	var rows []string
	for _, r := range ev.Rows {
		rows = append(rows, fmt.Sprintf("%s %.3f", r.Key, r.Value))
	}
	if got := strings.Join(rows, ", "); !strings.Contains(got, "check shard 0.030") || !strings.Contains(got, "register followup 0.450") {
		t.Errorf("rows: %s", got)
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	ev := check(t, zero, zero)
	probetest.WantMissing(t, ev, "check_seconds", "fewer than 10 requests")
	probetest.WantMissing(t, ev, "check_p99_seconds", "fewer than 100 requests")
	probetest.WantMissing(t, ev, "lookups_missing_share", "fewer than 10 times")
	probetest.Want(t, ev, "stalled_share", 0)
	probetest.WantMissing(t, ev, "stall_seconds", "no stall")
	ev = check(t, strings.Replace(zero, `"scheduling"`, `"other"`, 1), strings.Replace(later, `"scheduling"`, `"other"`, 1))
	probetest.WantMissing(t, ev, "stalled_share", "")

	one := strings.ReplaceAll(zero, `"endpoint":"register"`, `"endpoint":"other"`)
	ev = check(t, one, strings.ReplaceAll(later, `"endpoint":"register"`, `"endpoint":"other"`))
	probetest.WantMissing(t, ev, "register_rate", "no endpoint register")
	probetest.WantMissing(t, ev, "register_followup_share", "layer followup")
	probetest.Want(t, ev, "check_seconds", 0.01)

	ev = check(t, zero, strings.Replace(later, "15:00:00Z", "15:59:59Z", 1))
	probetest.WantMissing(t, ev, "check_rate", "restarted")

	ev = check(t, strings.ReplaceAll(zero, `"counts":[4900,50,40,10]`, `"counts":[1]`), later)
	probetest.WantMissing(t, ev, "check_p99_seconds", "no histogram")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{time.Millisecond, time.Hour} {
		if _, err := Kind(nil).New(func(into any) error { into.(*Options).Window = d; return nil }); err == nil {
			t.Errorf("window %v: got no error", d)
		}
	}
}

// TestTooManyLayers: a document of nothing but layers is refused, not worked on.
func TestTooManyLayers(t *testing.T) {
	t.Parallel()
	const layer = `{"layer":"x","calls":1,"busy_seconds":1},`
	doc := strings.Replace(zero, `"layers":[`, `"layers":[`+strings.Repeat(layer, 60_000), 1)
	begin := time.Now()
	ev := check(t, doc)
	probetest.WantMissing(t, ev, "check_rate", "more than 16 layers")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
