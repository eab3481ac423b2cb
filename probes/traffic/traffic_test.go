package traffic

import (
	"strings"
	"testing"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

const flood = `{"now":"2026-11-30T16:00:40Z","started_at":"2026-11-30T15:00:00Z","since":"2026-11-30T16:00:00Z",
 "checks":54000,"registrations":6000,"names":48000,"sources":65,"addressed":60000,
 "top_sources":[{"source":"3f9a2c11","requests":36000,"error":10},{"source":"aa00bb11","requests":500,"error":10}],
 "lookups":900,"names_looked_up":300,"checks_per_second":1350,"registrations_per_second":150,
 "baseline":{"seconds":600,"checks_per_second":595,"registrations_per_second":5}}`

func defaults(any) error { return nil }

func check(t *testing.T, doc string) probes.Evidence {
	t.Helper()
	kind := Kind(probetest.NewChecker(t, map[string]string{source.PathTraffic: doc}).Source(t))
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
		Kind: Kind, Decode: defaults, Docs: map[string]string{source.PathTraffic: flood},
		Allowed: []string{"GET " + source.PathTraffic}, Requests: 1,
	})
}

func TestFlood(t *testing.T) {
	t.Parallel()
	ev := check(t, flood)
	for name, want := range map[string]float64{
		"checks_rate": 1350, "registrations_rate": 150, "baseline_checks_rate": 595, "baseline_registrations_rate": 5,
		"baseline_seconds": 600, "checks_over_baseline": 1350.0 / 595, "registrations_over_baseline": 30,
		"distinct_name_ratio": 0.8, "sources": 65, "top_source_share": 0.6, "top_source_rate": 900,
		"top_source_excess_share": 1, "lookups": 900, "lookups_per_name": 3,
	} {
		probetest.Want(t, ev, name, want)
	}
	if len(ev.Missing) != 0 || ev.Window.Seconds() != 40 {
		t.Errorf("missing %v, window %v", ev.Missing, ev.Window)
	}
	if len(ev.Rows) != 2 || ev.Rows[0].Key != "3f9a2c11" || ev.Rows[0].Value != 36000 {
		t.Errorf("rows %+v", ev.Rows)
	}
}

func TestNoMoreThanBefore(t *testing.T) {
	t.Parallel()
	ev := check(t, strings.Replace(flood, `"checks_per_second":595`, `"checks_per_second":1595`, 1))
	probetest.Want(t, ev, "top_source_excess_share", 0)
}

func TestUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	young := flood[:strings.Index(flood, `"checks_per_second"`)] + `"x":0}`
	ev := check(t, young)
	for _, fact := range []string{"checks_rate", "checks_over_baseline", "top_source_rate", "top_source_excess_share"} {
		probetest.WantMissing(t, ev, fact, "is left out")
	}
	probetest.Want(t, ev, "top_source_share", 0.6)
	probetest.Want(t, ev, "baseline_seconds", 0)

	idle := strings.NewReplacer(`"checks":54000`, `"checks":20`, `"registrations":6000`, `"registrations":0`, `"addressed":60000`, `"addressed":20`,
		`"lookups":900`, `"lookups":3`, `"checks_per_second":595`, `"checks_per_second":0`).Replace(flood)
	ev = check(t, idle)
	probetest.WantMissing(t, ev, "distinct_name_ratio", "fewer than 200")
	probetest.WantMissing(t, ev, "top_source_share", "fewer than 200")
	probetest.WantMissing(t, ev, "lookups_per_name", "fewer than 50")
	probetest.WantMissing(t, ev, "checks_over_baseline", "no checks before")

	nobody := flood[:strings.Index(flood, `"top_sources"`)] + `"lookups":900,"names_looked_up":300}`
	probetest.WantMissing(t, check(t, nobody), "top_source_share", "does not tell where")
}
