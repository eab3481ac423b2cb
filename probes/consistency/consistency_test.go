package consistency

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

const stale = `{"now":"2026-11-30T16:00:00Z","sampled":600,"latest":400,
 "redis":{"asked":970,"taken":600,"free":350},"local":{"asked":970,"taken":30,"free":2},
 "shards":[{"shard":"shard0","sampled":300},{"shard":"shard1","sampled":300}],"states":{"released":30,"too_early":7}}`

func defaults(any) error { return nil }

func check(t *testing.T, doc string) probes.Evidence {
	t.Helper()
	kind := Kind(probetest.NewChecker(t, map[string]string{source.PathConsistency: doc}).Source(t))
	p, err := kind.New(defaults)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	probetest.Valid(t, kind.Facts, ev, err)
	return ev
}

func TestContract(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Kind: Kind, Decode: defaults, Docs: map[string]string{source.PathConsistency: stale},
		Allowed: []string{"GET " + source.PathConsistency}, Requests: 1,
	})
}

func TestStale(t *testing.T) {
	t.Parallel()
	ev := check(t, stale)
	for name, want := range map[string]float64{
		"names_compared": 1000, "latest_compared": 400, "redis_asked": 970, "redis_free": 350, "local_asked": 970, "local_free": 2,
		"released": 30, "released_too_early": 7,
	} {
		probetest.Want(t, ev, name, want)
	}
	if len(ev.Rows) != 0 {
		t.Errorf("rows: %+v, want none", ev.Rows)
	}
}

func TestHalfBlind(t *testing.T) {
	t.Parallel()
	ev := check(t, strings.NewReplacer(`{"asked":970,"taken":600,"free":350}`, `{"error":"timeout"}`,
		`{"shard":"shard1","sampled":300}`, `{"shard":"shard1","error":"timeout"}`).Replace(stale))
	probetest.WantMissing(t, ev, "redis_free", "redis could not be asked: timeout")
	probetest.Want(t, ev, "local_free", 2)
	probetest.Want(t, ev, "released_too_early", 7)
	if len(ev.Rows) != 1 || ev.Rows[0].Key != "shard1" || !ev.Rows[0].Unknown {
		t.Errorf("rows: %+v, want the shard that could not be asked", ev.Rows)
	}
	ev = check(t, `{"sampled":0,"latest":0,"states":{"released":0,"too_early":0},"shards":[{"shard":"shard0","error":"timeout"}]}`)
	probetest.WantMissing(t, ev, "released_too_early", "shard0: timeout")
	probetest.WantMissing(t, ev, "redis_free", "free is left out")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Names: 0}, {Names: 5001}, {Names: 1, MinAge: -time.Second}, {Names: 1, MinAge: 2 * time.Hour}} {
		if _, err := Kind(nil).New(func(into any) error { *into.(*Options) = o; return nil }); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	if _, err := Kind(nil).New(func(any) error { return errors.New("line 7: no such option") }); err == nil {
		t.Error("an error of decode is lost")
	}
}

// TestForTheRecord: drawing names from all shards is not cheap.
func TestForTheRecord(t *testing.T) {
	t.Parallel()
	checker := probetest.NewChecker(t, map[string]string{source.PathConsistency: stale})
	kind := Kind(checker.Source(t))
	p, err := kind.New(defaults)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(probes.NewStandby(time.Now().Add(time.Minute)).Context(t.Context()))
	probetest.Valid(t, kind.Facts, ev, err)
	if !errors.Is(err, probes.ErrNotRecorded) || len(checker.Asked()) != 0 {
		t.Errorf("got %v and requests %v, want neither evidence nor requests", err, checker.Asked())
	}
}
