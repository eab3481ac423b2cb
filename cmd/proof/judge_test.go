package main

import "testing"

// TestCompare breaks each promise once.
func TestCompare(t *testing.T) {
	t.Parallel()
	f := func(what string, told, rows, events ledger, want verdict) {
		t.Helper()
		var got verdict
		got.compare([]string{"a", "b"}, told, rows, events)
		if got != want {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	one := ledger{"a": {"1"}, "b": {"2"}}
	with := func(n string, ids ...string) ledger {
		l := ledger{"a": {"1"}, "b": {"2"}}
		if l[n] = ids; len(ids) == 0 {
			delete(l, n)
		}
		return l
	}
	f("all is well", one, one, one, verdict{acknowledged: 2})
	f("nobody was told", with("b"), one, one, verdict{acknowledged: 1, unacknowledged: 1})
	f("two were told", with("b", "2", "3"), one, one, verdict{acknowledged: 1, owners: 1})
	f("the wrong one was told", with("b", "3"), one, one, verdict{acknowledged: 1, owners: 1})
	f("a row is gone", one, with("b"), one, verdict{acknowledged: 1, owners: 1, events: 1})
	f("two rows", one, with("b", "2", "3"), one, verdict{acknowledged: 1, owners: 1, events: 1})
	f("a row nobody asked for", one, with("c", "3"), one, verdict{acknowledged: 2, owners: 1})
	f("no event", one, one, with("b"), verdict{acknowledged: 2, events: 1})
	f("two events", one, one, with("b", "2", "2"), verdict{acknowledged: 2, events: 1})
	f("another's event", one, one, with("b", "3"), verdict{acknowledged: 2, events: 1})
	f("an event of no row", one, one, with("c", "3"), verdict{acknowledged: 2, events: 1})
}
