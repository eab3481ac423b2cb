package bloom

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

const healthyDoc = `{"now":"2026-11-30T16:00:10Z","started_at":"2026-11-30T15:00:00Z",
 "m":958506,"k":7,"capacity":100000,"target_rate":0.01,"set_bits":340000,
 "names_added":60123,"adds_by_source":{"build":60000,"register":123,"query":0},
 "registrations":123,"generation":1,"built_at":"2026-11-30T15:00:10Z"}`

const healthyVerify = `{"now":"2026-11-30T16:00:10Z","generation":1,"sampled":1000,"missing":0,
 "shards":[{"shard":"shard0","sampled":500,"missing":0},{"shard":"shard1","sampled":500,"missing":0}],
 "latest":{"sampled":123,"missing":0},
 "groups":[{"by":"writer","group":"before this service","sampled":1000,"missing":0,"known_after":0},
  {"by":"writer","group":"machine 0","sampled":123,"missing":0,"known_after":0},
  {"by":"characters","group":"digits","sampled":1123,"missing":0,"known_after":0}]}`

// tester answers like a filter with the given false-positive rate: every
// 1/rate-th name is a maybe, on average.
func tester(rate float64, edit func(*answer)) http.HandlerFunc {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		var req source.BloomTestRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a := answer{Generation: 1, Tested: len(req.Names), Maybe: []int{}}
		different := make(map[string]bool)
		for i, name := range req.Names {
			if !strings.HasPrefix(name, "zz0canary") || len(name) > 32 {
				a.Invalid++
			}
			different[name] = true
			n := float64(seen.Add(1))
			if math.Floor(n*rate) != math.Floor((n-1)*rate) {
				a.Maybe = append(a.Maybe, i)
			}
		}
		a.Distinct = len(different)
		if edit != nil {
			edit(&a)
		}
		_ = json.NewEncoder(w).Encode(a)
	}
}

type answer struct {
	Generation int   `json:"generation"`
	Tested     int   `json:"tested"`
	Distinct   int   `json:"distinct"`
	Invalid    int   `json:"invalid"`
	Maybe      []int `json:"maybe"`
}

func checker(t *testing.T, doc, verify string, test http.HandlerFunc) *probetest.Checker {
	t.Helper()
	c := probetest.NewChecker(t, map[string]string{source.PathBloom: doc, source.PathBloomVerify: verify})
	c.Serve(source.PathBloomTest, test)
	return c
}

func defaults(any) error { return nil }

func check(t *testing.T, c *probetest.Checker) probes.Evidence {
	t.Helper()
	kind := Kind(c.Source(t))
	p, err := kind.New(defaults)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	probetest.Valid(t, kind.Facts, ev, err)
	if ev.Cost.HTTPRequests != len(c.Asked()) {
		t.Errorf("cost says %d requests, the service saw %d", ev.Cost.HTTPRequests, len(c.Asked()))
	}
	return ev
}

func TestContract(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Kind:   Kind,
		Decode: defaults,
		Docs: map[string]string{
			source.PathBloom:       healthyDoc,
			source.PathBloomVerify: healthyVerify,
			source.PathBloomTest:   `{"now":"2026-11-30T16:00:10Z","generation":1,"tested":1500,"distinct":1500,"invalid":0,"maybe":[3,77]}`,
		},
		Allowed:  []string{"GET " + source.PathBloom, "POST " + source.PathBloomTest, "GET " + source.PathBloomVerify},
		Requests: 5,
	})
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	ev := check(t, checker(t, healthyDoc, healthyVerify, tester(0.001, nil)))
	fill := 340000.0 / 958506
	for name, want := range map[string]float64{
		"fill_ratio": fill, "predicted_fp_rate": math.Pow(fill, 7), "target_fp_rate": 0.01,
		"fp_rate": 1.0 / 1500, "fp_rate_over_target": 100.0 / 1500, "canaries_tested": 1500, "canaries_distinct_ratio": 1,
		"capacity": 100000, "names_added": 60123, "capacity_used_ratio": 0.60123, "headroom_names": 39877,
		"query_adds": 0, "query_adds_share": 0, "register_adds": 123, "registrations": 123, "unexplained_adds_share": 0,
		"positives_tested": 1000, "positives_missing": 0, "age_seconds": 3600, "canaries_refused_ratio": 0,
		"latest_tested": 123, "latest_missing": 0, "group_missing_share": 0, "group_known_after": 0, "others_missing_share": 0,
		"lost_adds": 0, "lost_adds_share": 0,
	} {
		probetest.Want(t, ev, name, want)
	}
	if len(ev.Missing) != 0 {
		t.Errorf("missing: %v", ev.Missing)
	}
	if ev.Cost.HTTPRequests != enough {
		t.Errorf("a clear rate took %d requests, want %d", ev.Cost.HTTPRequests, enough)
	}
}

func TestWriteOnRead(t *testing.T) {
	t.Parallel()
	doc := strings.NewReplacer(
		`"set_bits":340000`, `"set_bits":930000`, `"names_added":60123`, `"names_added":440123`, `"query":0`, `"query":380000`,
	).Replace(healthyDoc)
	ev := check(t, checker(t, doc, healthyVerify, tester(0.81, nil)))
	probetest.Want(t, ev, "query_adds_share", 380000.0/440123)
	probetest.Want(t, ev, "unexplained_adds_share", 380000.0/440123)
	probetest.Want(t, ev, "headroom_names", -340123)
	probetest.Want(t, ev, "fp_rate", 0.81)
}

// enough is how many requests a check makes while the canaries leave nothing
// undecided: for a snapshot, in vain, for the document, the canaries and the
// names that exist.
const enough = 4

// The sample grows, with one request more, only while it leaves undecided
// whether the rate is beyond 1.25 times the target.
func TestExtension(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate   float64
		tested float64
	}{{0.0005, 1500}, {0.05, 1500}, {0.4, 1500}, {0.01, 20000}, {0.0125, 20000}, {0.016, 20000}, {0.0075, 5000}} {
		ev := check(t, checker(t, healthyDoc, healthyVerify, tester(tt.rate, nil)))
		probetest.Want(t, ev, "canaries_tested", tt.tested)
		want := enough
		if tt.tested > 1500 {
			want++
		}
		if ev.Cost.HTTPRequests != want {
			t.Errorf("rate %v: %d requests, want %d", tt.rate, ev.Cost.HTTPRequests, want)
		}
		for _, f := range ev.Facts {
			if f.Name == "fp_rate" && (f.Interval == nil || f.Interval.Low > tt.rate || f.Interval.High < tt.rate) {
				t.Errorf("rate %v: interval %v does not hold it", tt.rate, f.Interval)
			}
		}
	}
}

func TestCanariesThatTellNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*answer)
		want string
	}{
		"collapsing":     {func(a *answer) { a.Distinct = 1 }, "only 1 of 1500 canary names differ"},
		"not reserved":   {func(a *answer) { a.Tested, a.Invalid = a.Tested-10, 10 }, "refuses 10 of the canary names"},
		"none tested":    {func(a *answer) { a.Invalid, a.Tested = a.Tested, 0 }, "refuses"},
		"too many":       {func(a *answer) { a.Tested++ }, "does not add up"},
		"out of range":   {func(a *answer) { a.Maybe = []int{1500} }, "indexes"},
		"negative index": {func(a *answer) { a.Maybe = []int{-1} }, "indexes"},
		"twice":          {func(a *answer) { a.Maybe = []int{1, 1} }, "indexes"},
		"no list":        {func(a *answer) { a.Maybe = nil }, "maybe is left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := check(t, checker(t, healthyDoc, healthyVerify, tester(0.0001, tt.edit)))
			probetest.WantMissing(t, ev, "fp_rate", tt.want)
			probetest.WantMissing(t, ev, "fp_rate_over_target", tt.want)
			probetest.Want(t, ev, "fill_ratio", 340000.0/958506)
			if n := ev.Cost.HTTPRequests; n != enough {
				t.Errorf("%d requests: a sample that tells nothing must not be extended", n)
			}
		})
	}
}

// A filter that is replaced while it is measured is not two samples of one.
func TestReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	generation := 0
	ev := check(t, checker(t, healthyDoc, healthyVerify, tester(0.0125, func(a *answer) {
		generation++
		a.Generation = generation
	})))
	probetest.Want(t, ev, "canaries_tested", 1500)
}

func TestPositives(t *testing.T) {
	t.Parallel()
	lost := `{"sampled":500,"missing":7,"shards":[{"shard":"shard0","sampled":500,"missing":7},{"shard":"shard1","error":"timeout"}]}`
	ev := check(t, checker(t, healthyDoc, lost, tester(0, nil)))
	probetest.Want(t, ev, "positives_missing", 7)
	if len(ev.Rows) != 2 || ev.Rows[0].Value != 7 || !strings.Contains(ev.Rows[1].Note, "timeout") {
		t.Errorf("rows: got %+v, want the shard that lost names and the one that could not be asked", ev.Rows)
	}
	blind := `{"sampled":0,"missing":0,"shards":[{"shard":"shard1","error":"timeout"}]}`
	ev = check(t, checker(t, healthyDoc, blind, tester(0, nil)))
	probetest.Want(t, ev, "positives_tested", 0)
	probetest.WantMissing(t, ev, "positives_missing", "shard1: timeout")
	if len(ev.Rows) == 0 || !ev.Rows[len(ev.Rows)-1].Unknown {
		t.Errorf("rows: got %+v, want no number for a shard that could not be sampled", ev.Rows)
	}
}

// Which kind of names stands out is told by its share against that of all others, not by
// its size, and never from a handful.
func TestGroups(t *testing.T) {
	t.Parallel()
	const one = `{"sampled":1000,"missing":31,"latest":{"sampled":100,"missing":60},"groups":[
		{"by":"characters","group":"digits","sampled":1000,"missing":31,"known_after":0},
		{"by":"characters","group":"letters","sampled":100,"missing":60,"known_after":2},
		{"by":"writer","group":"machine 3","sampled":80,"missing":80,"known_after":0},
		{"by":"writer","group":"machine 4","sampled":12,"missing":12,"known_after":0},
		{"by":"writer","group":"before this service","sampled":1008,"missing":0,"known_after":0}]}`
	ev := check(t, checker(t, healthyDoc, one, tester(0, nil)))
	probetest.Want(t, ev, "latest_tested", 100)
	probetest.Want(t, ev, "latest_missing", 60)
	probetest.Want(t, ev, "group_tested", 80)
	probetest.Want(t, ev, "group_missing_share", 1)
	probetest.Want(t, ev, "group_known_after", 0)
	probetest.Want(t, ev, "others_missing_share", 12.0/1020)
	first := slices.IndexFunc(ev.Rows, func(r probes.Row) bool { return r.Table == tableGroups })
	if first < 0 || ev.Rows[first].Key != "writer machine 3" || ev.Rows[first].Value != 80 {
		t.Errorf("rows: got %+v, want machine 3 first among the groups", ev.Rows)
	}

	// The writer is at fault; more of the punctuated names are missing only because more of
	// them are his.
	const mixed = `{"sampled":1000,"missing":22,"groups":[
		{"by":"characters","group":"punctuation","sampled":131,"missing":121,"known_after":0},
		{"by":"characters","group":"digits","sampled":1368,"missing":348,"known_after":0},
		{"by":"writer","group":"machine 0","sampled":533,"missing":476,"known_after":0},
		{"by":"writer","group":"before this service","sampled":978,"missing":0,"known_after":0}]}`
	ev = check(t, checker(t, healthyDoc, mixed, tester(0, nil)))
	probetest.Want(t, ev, "group_tested", 533)
	probetest.Want(t, ev, "others_missing_share", 0)

	const alike = `{"sampled":1000,"missing":3,"groups":[{"by":"writer","group":"a","sampled":1000,"missing":3,"known_after":500}]}`
	ev = check(t, checker(t, healthyDoc, alike, tester(0, nil)))
	probetest.Want(t, ev, "group_missing_share", 0.003)
	probetest.WantMissing(t, ev, "others_missing_share", "of one kind")
	probetest.WantMissing(t, ev, "latest_missing", "latest.missing is left out")

	ev = check(t, checker(t, healthyDoc, `{"sampled":1000,"missing":3}`, tester(0, nil)))
	probetest.WantMissing(t, ev, "group_missing_share", "groups is left out")
}

func TestLostAdds(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(healthyDoc, `"registrations":123`, `"registrations":164`, 1)
	ev := check(t, checker(t, doc, healthyVerify, tester(0, nil)))
	probetest.Want(t, ev, "lost_adds", 41)
	probetest.Want(t, ev, "lost_adds_share", 0.25)
	// An outcome that stayed open is entered without a registration.
	doc = strings.Replace(healthyDoc, `"registrations":123`, `"registrations":120`, 1)
	probetest.Want(t, check(t, checker(t, doc, healthyVerify, tester(0, nil))), "lost_adds", 0)
}

func TestLeftOutIsNotZero(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(healthyDoc, `"query":0`, `"other":0`, 1)
	ev := check(t, checker(t, doc, healthyVerify, tester(0, nil)))
	probetest.WantMissing(t, ev, "query_adds", "adds_by_source.query is left out")
	probetest.WantMissing(t, ev, "query_adds_share", "adds_by_source.query is left out")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Positives: 0}, {Positives: 5001}, {Positives: 1, MinAge: -time.Second}, {Positives: 1, MinAge: 2 * time.Hour}} {
		if _, err := Kind(nil).New(func(into any) error { *into.(*Options) = o; return nil }); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	if _, err := Kind(nil).New(func(any) error { return errors.New("line 7: no such option") }); err == nil {
		t.Error("an error of decode is lost")
	}
}

func TestCanaryNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, name := range append(canaryNames(20000), canaryNames(20000)...) {
		if seen[name] || len(name) > 32 || !strings.HasPrefix(name, "zz0canary") || strings.ToLower(name) != name {
			t.Fatalf("name %q comes twice or does not have the right form", name)
		}
		seen[name] = true
	}
}
