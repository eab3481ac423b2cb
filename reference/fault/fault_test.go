package fault_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
)

// counted is a fault that counts its switches and can refuse.
type counted struct {
	on, off int
	err     error
}

func (c *counted) fault(name string) fault.Fault {
	return fault.Fault{
		Name: name, Help: "help of " + name,
		On:  func(context.Context) error { c.on++; return c.err },
		Off: func(context.Context) error { c.off++; return c.err },
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	var a, b counted
	r := fault.NewRegistry([]fault.Fault{a.fault("a"), b.fault("b")})
	flip := func(name string, on bool, wantErr error) {
		t.Helper()
		s, err := r.Switch(t.Context(), name, on)
		if !errors.Is(err, wantErr) {
			t.Errorf("Switch(%s, %v) = %v, want %v", name, on, err, wantErr)
		}
		if err == nil && (s.Name != name || s.On != on || s.Help != "help of "+name) {
			t.Errorf("Switch(%s, %v) = %+v", name, on, s)
		}
	}
	list := func(wantA, wantB bool) {
		t.Helper()
		if l := r.List(); len(l) != 2 || l[0].Name != "a" || l[0].On != wantA || l[1].Name != "b" || l[1].On != wantB {
			t.Errorf("List() = %+v, want a %v, b %v", l, wantA, wantB)
		}
	}
	list(false, false)
	flip("a", false, nil) // off already
	flip("a", true, nil)
	flip("a", true, nil) // on already
	list(true, false)
	if a.on != 1 || a.off != 0 {
		t.Errorf("a was switched on %d and off %d times, want 1 and 0", a.on, a.off)
	}
	flip("c", true, fault.ErrUnknown)

	stuck := errors.New("stuck")
	a.err, b.err = stuck, stuck
	flip("a", false, stuck)
	flip("b", true, stuck)
	list(true, false) // as before
	if err := r.AllOff(t.Context()); !errors.Is(err, stuck) {
		t.Errorf("AllOff() = %v, want %v", err, stuck)
	}
	a.err = nil
	if err := r.AllOff(t.Context()); err != nil {
		t.Errorf("AllOff() = %v", err)
	}
	list(false, false)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	var a, b counted
	b.err = errors.New("initdb is missing")
	server := httptest.NewServer(fault.NewRegistry([]fault.Fault{a.fault("a"), b.fault("b")}).Handler())
	t.Cleanup(server.Close)
	f := func(method, path string, wantCode int, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // it was only read
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != wantCode || strings.TrimSpace(string(body)) != want {
			t.Errorf("%s %s = %d %s, %v, want %d %s", method, path, res.StatusCode, body, err, wantCode, want)
		}
	}
	const (
		on  = `{"name":"a","on":true,"help":"help of a"}`
		off = `{"name":"a","on":false,"help":"help of a"}`
	)
	f(http.MethodPost, "/debug/fault/a", http.StatusOK, on)
	f(http.MethodPost, "/debug/fault/a", http.StatusOK, on)
	f(http.MethodGet, "/debug/fault/", http.StatusOK, `{"faults":[`+on+`,{"name":"b","on":false,"help":"help of b"}]}`)
	f(http.MethodDelete, "/debug/fault/a", http.StatusOK, off)
	f(http.MethodDelete, "/debug/fault/a", http.StatusOK, off)
	f(http.MethodPost, "/debug/fault/b", http.StatusInternalServerError, `{"error":"switch on b: initdb is missing"}`)
	f(http.MethodPost, "/debug/fault/c", http.StatusNotFound, `{"error":"unknown fault \"c\""}`)
	f(http.MethodDelete, "/debug/fault/c", http.StatusNotFound, `{"error":"unknown fault \"c\""}`)
}

// TestScenarios pins names and causes, which the demo and its users rely on,
// and that all share one load.
func TestScenarios(t *testing.T) {
	t.Parallel()
	want := map[string][2]string{ // cause, fault
		"bloom-undersized": {"bloom-undersized", "bloom-undersized"},
		"write-on-read":    {"bloom-write-on-read", "write-on-read"},
		"hot-name":         {"hot-name", ""},
		"redis-pool":       {"redis-pool-too-small", "redis-pool"},
		"redis-pool-leak":  {"redis-pool-leak", "redis-pool-leak"},
		"redis-down":       {"redis-down", "redis-down"},
		"shard-down":       {"shard-down", "shard-down"},
		"error-burst":      {"error-after-change", "error-burst"},
		"healthy":          {"", ""},
	}
	all := fault.Scenarios(20_000, time.Minute)
	if len(all) != len(want) {
		t.Errorf("%d scenarios, want %d", len(all), len(want))
	}
	for _, s := range all {
		if w, ok := want[s.Name]; !ok || s.Cause != w[0] || s.Fault != w[1] || s.Help == "" {
			t.Errorf("scenario %+v, want cause and fault %v", s, w)
		}
		// What the base load has must be there in every scenario, per second.
		rest := s.Load.Rate * (1 - s.Load.HotShare)
		registrations := rest * s.Load.RegisterShare
		taken := (rest - registrations) * s.Load.TakenShare
		if d := registrations - 5; d > 0.01 || d < -0.01 {
			t.Errorf("%s: %.2f registrations per second, want 5", s.Name, registrations)
		}
		if d := taken - 900; d > 0.1 || d < -0.1 {
			t.Errorf("%s: %.1f checks of taken names per second, want 900", s.Name, taken)
		}
		if free := rest - registrations - taken; free < 599 {
			t.Errorf("%s: %.1f checks of free names per second, want at least 600", s.Name, free)
		}
		if s.Load.Names != 20_000 || s.Load.Duration != time.Minute {
			t.Errorf("%s: load %+v, want the names and time given", s.Name, s.Load)
		}
	}
}

// TestLoads sends what is sent without a fault, for a moment, and looks at what
// arrives: bots register much and check free names, a promotion brings many
// checks of free names and few registrations.
func TestLoads(t *testing.T) {
	t.Parallel()
	want := map[string]struct{ rate, register, takenChecks float64 }{
		"bot-flood": {1500, 0.3, 0.3}, "promotion": {5000, 0.01, 0.1},
	}
	loads := fault.Loads(100, 300*time.Millisecond)
	if len(loads) != len(want) {
		t.Errorf("%d loads, want %d", len(loads), len(want))
	}
	for _, l := range loads {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			var registrations, taken, checks atomic.Int64
			existing := map[string]bool{}
			for i := range 100 {
				existing[load.Name(i)] = true
			}
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				switch name := r.URL.Query().Get("name"); {
				case r.Method == http.MethodPost:
					registrations.Add(1)
				case existing[name]:
					taken.Add(1)
					fallthrough
				default:
					checks.Add(1)
				}
			}))
			t.Cleanup(server.Close)
			w := want[l.Name]
			if l.Load.Rate != w.rate || l.Fault != "" || l.Cause != "" || l.Help == "" {
				t.Errorf("load %+v, want a rate of %g and no fault to find", l, w.rate)
			}
			r, err := load.Run(t.Context(), server.URL, l.Load)
			if err != nil {
				t.Fatal(err)
			}
			if got := uint64(registrations.Load() + checks.Load()); got == 0 || got > r.Sent {
				t.Fatalf("%d requests arrived, %d were sent", got, r.Sent)
			}
			near := func(what string, part, of int64, want float64) {
				t.Helper()
				got := float64(part) / float64(of)
				if spread := 5 * math.Sqrt(want*(1-want)/float64(of)); math.Abs(got-want) > spread {
					t.Errorf("%s: %.3f of %d, want %.3f ± %.3f", what, got, of, want, spread)
				}
			}
			near("registrations", registrations.Load(), registrations.Load()+checks.Load(), w.register)
			near("taken names", taken.Load(), checks.Load(), w.takenChecks)
		})
	}
}
