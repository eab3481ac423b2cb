package probetest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/regpath/diagnose/probes"
)

// Value returns the value of a fact and whether it was measured.
func Value(ev probes.Evidence, name string) (float64, bool) {
	for _, f := range ev.Facts {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// Reason returns why a fact is missing; empty when it is not.
func Reason(ev probes.Evidence, name string) string {
	for _, m := range ev.Missing {
		if slices.Contains(m.Facts, name) {
			return m.Reason
		}
	}
	return ""
}

// WantMoot fails the test unless there was nothing to measure for a fact, for a
// reason that holds the given text.
func WantMoot(t testing.TB, ev probes.Evidence, name, why string) {
	t.Helper()
	WantMissing(t, ev, name, why)
	if i := slices.IndexFunc(ev.Missing, func(m probes.Missing) bool { return slices.Contains(m.Facts, name) }); i >= 0 && !ev.Missing[i].Moot {
		t.Errorf("%s: missing because %q counts as a gap, want it moot", name, ev.Missing[i].Reason)
	}
}

// WantAbsent fails the test unless a fact is not to be had, for a reason that holds
// the given text.
func WantAbsent(t testing.TB, ev probes.Evidence, name, why string) {
	t.Helper()
	WantMissing(t, ev, name, why)
	if i := slices.IndexFunc(ev.Missing, func(m probes.Missing) bool { return slices.Contains(m.Facts, name) }); i >= 0 && !ev.Missing[i].Absent {
		t.Errorf("%s: missing because %q counts as not read, want it absent", name, ev.Missing[i].Reason)
	}
}

// Want fails the test unless the fact has the value, up to rounding.
func Want(t testing.TB, ev probes.Evidence, name string, want float64) {
	t.Helper()
	got, ok := Value(ev, name)
	switch {
	case !ok:
		t.Errorf("%s: missing (%s), want %v", name, Reason(ev, name), want)
	case math.Abs(got-want) > 1e-9*max(1, math.Abs(want)):
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// WantMissing fails the test unless the fact is missing for a reason that holds
// the given text.
func WantMissing(t testing.TB, ev probes.Evidence, name, why string) {
	t.Helper()
	if got, ok := Value(ev, name); ok {
		t.Errorf("%s: got %v, want it missing", name, got)
	} else if reason := Reason(ev, name); !strings.Contains(reason, why) {
		t.Errorf("%s: missing because %q, want %q", name, reason, why)
	}
}
