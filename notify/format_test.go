package notify

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

func TestValue(t *testing.T) {
	t.Parallel()
	f := func(v float64, u probes.Unit, want string) {
		t.Helper()
		if got := Value(v, u); got != want {
			t.Errorf("Value(%v, %q) = %q, want %q", v, u, got, want)
		}
	}
	f(0.97, probes.Ratio, "97 %")
	f(0.0123, probes.Seconds, "12.3 ms")
	f(1198132297, probes.Bytes, "1.2 GB")
	f(3.4, probes.PerSecond, "3.4/s")
	f(1234567, probes.Count, "1,234,567")
	f(1, probes.Bool, "yes")
	f(2, "furlongs\x1b", `2 furlongs\x1b`)
	f(math.NaN(), probes.Ratio, "not a number")
	f(math.Inf(-1), probes.Bytes, "infinite")
}

func TestValueWithin(t *testing.T) {
	t.Parallel()
	got := ValueWithin(0.0102, probes.Ratio, &probes.Interval{Low: 0.006, High: 0.017})
	if want := "1.02 % (95 % sure: 0.6 % to 1.7 %)"; got != want {
		t.Errorf("ValueWithin = %q, want %q", got, want)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	f := func(d time.Duration, want string) {
		t.Helper()
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
	f(0, "0 s")
	f(850*time.Millisecond, "850 ms")
	f(1500*time.Millisecond, "1.5 s")
	f(59*time.Second+600*time.Millisecond, "1 min")
	f(200*time.Second, "3 min 20 s")
	f(12*time.Minute, "12 min")
	f(2*time.Hour+5*time.Minute+59*time.Second, "2 h 5 min")
	f(51*time.Hour, "2 d 3 h")
}

func TestCostLine(t *testing.T) {
	t.Parallel()
	want := "1 Redis command, 0 SQL statements, 1,200 HTTP requests, 1.5 kB read"
	if got := CostLine(probes.Cost{RedisCommands: 1, HTTPRequests: 1200, Bytes: 1500}); got != want {
		t.Errorf("CostLine = %q, want %q", got, want)
	}
}

func TestSince(t *testing.T) {
	at := time.Date(2026, 11, 30, 15, 32, 10, 0, time.FixedZone("", 3600))
	r := playbooks.Report{
		Verdict: playbooks.CauseFound,
		Causes: []playbooks.Cause{
			{ID: "a", Title: "A", Role: playbooks.Root, Since: at, Evidence: []playbooks.Observation{
				{Fact: "bloom.fill_ratio", Value: 0.91, Unit: probes.Ratio, Expected: "<= 0.5", Onset: &probes.Onset{At: at, Before: 0.02, After: 0.91}},
			}},
			{ID: "b", Title: "B", Role: playbooks.Note},
		},
		Findings: []playbooks.Finding{{Step: "bloom", Facts: []probes.Fact{
			{Name: "adds", Value: 7, Onset: &probes.Onset{At: at, Before: 3, After: 7}}, {Name: "still", Value: 1},
		}}},
	}
	var out strings.Builder
	if err := Text(&out, r, TextOptions{Detail: Full, Width: 200}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"bloom.fill_ratio = 91 %, expected <= 0.5, since 14:32:10 UTC, from 2 % to 91 %", "● A, since 14:32:10 UTC\n", "○ B\n",
		"adds 7 (since 14:32:10 UTC, from 3 to 7); still 1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
