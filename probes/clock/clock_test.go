package clock

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

const healthy = `{"now":"2026-11-30T16:00:00Z","started_at":"2026-11-30T15:00:00Z",
 "ids":{"given":1000,"spare":0,"waits":0,"refused":0,"behind_seconds":0}}`

func quick(into any) error { into.(*Options).Window = source.MinWindow; return nil }

func check(t *testing.T, serve func(n int64) string) probes.Evidence {
	t.Helper()
	c := probetest.NewChecker(t, nil)
	var asked atomic.Int64
	c.Serve(source.PathClock, func(w http.ResponseWriter, r *http.Request) { probetest.JSON(serve(asked.Add(1)))(w, r) })
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
		Kind: Kind, Decode: quick, Docs: map[string]string{source.PathClock: healthy},
		Allowed: []string{"GET " + source.PathClock}, Requests: 2,
	})
}

func TestClockThatWentBack(t *testing.T) {
	t.Parallel()
	ev := check(t, func(n int64) string {
		return fmt.Sprintf(`{"now":%q,"started_at":"2026-11-30T15:00:00Z","ids":{"given":1000,"spare":7,"waits":3,"refused":%d,"behind_seconds":89.5}}`,
			time.Now().Add(-90*time.Second).Format(time.RFC3339Nano), 100*n)
	})
	probetest.Want(t, ev, "ids_behind_seconds", 89.5)
	probetest.Want(t, ev, "ids_rate", 0)
	probetest.Want(t, ev, "ids_spare_rate", 0)
	if rate, ok := probetest.Value(ev, "ids_refused_rate"); !ok || rate <= 0 || rate > 250 {
		t.Errorf("ids_refused_rate = %v, %t, want 100 in half a second or more", rate, ok)
	}
	if offset, ok := probetest.Value(ev, "offset_seconds"); !ok || offset > -89 || offset < -150 {
		t.Errorf("offset_seconds = %v, %t, want about -90", offset, ok)
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	ev := check(t, func(n int64) string {
		return strings.Replace(healthy, `15:00:00Z`, fmt.Sprintf(`15:00:0%dZ`, n), 1)
	})
	probetest.WantMissing(t, ev, "ids_refused_rate", "restarted")
	probetest.Want(t, ev, "ids_behind_seconds", 0)
	ev = check(t, func(int64) string { return `{"ids":{"given":1}}` })
	probetest.WantMissing(t, ev, "offset_seconds", "now is left out")
	probetest.WantMissing(t, ev, "ids_behind_seconds", "behind_seconds is left out")
}
