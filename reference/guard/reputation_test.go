package guard_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/guard"
)

func TestNetworks(t *testing.T) {
	t.Parallel()
	n, err := guard.NewNetworks(
		prefixes("127.0.0.0/8", "203.0.113.7/32", "2001:db8:1::/48", "198.51.100.0/24", "192.0.2.9/24"),
		prefixes("203.0.113.0/24", "2001:db8::/32", "198.51.100.0/24", "2001:db8:1:2::/64", "::ffff:100.64.0.0/106"))
	if err != nil {
		t.Fatal(err)
	}
	f := func(a string, want guard.Standing) {
		t.Helper()
		if got, err := n.Of(t.Context(), addr(a)); err != nil || got != want {
			t.Errorf("Of(%s) = %d, %v, want %d", a, got, err, want)
		}
	}
	f("127.0.0.1", guard.Trusted)
	f("::ffff:127.0.0.1", guard.Trusted)
	f("128.0.0.1", guard.Unknown)
	f("203.0.113.6", guard.Banned)
	f("203.0.113.7", guard.Trusted) // the narrower one
	f("2001:db8::1", guard.Banned)
	f("2001:db8:1::1", guard.Trusted)
	f("2001:db8:1:2::1", guard.Banned)
	f("2001:db8:1:2::1%eth0", guard.Banned) // a zone is no way around
	f("2001:db9::1", guard.Unknown)
	f("198.51.100.1", guard.Banned) // in both
	f("192.0.2.200", guard.Trusted) // the list had bits beyond the mask
	f("100.64.0.1", guard.Banned)
	if got, err := n.Of(t.Context(), netip.Addr{}); err != nil || got != guard.Unknown {
		t.Errorf("Of(no address) = %d, %v", got, err)
	}

	all, err := guard.NewNetworks(nil, prefixes("0.0.0.0/0"))
	if err != nil {
		t.Fatal(err)
	}
	n = all
	f("192.0.2.1", guard.Banned)
	f("::1", guard.Unknown)

	for _, bad := range []struct{ trusted, banned []netip.Prefix }{{trusted: make([]netip.Prefix, 1)}, {banned: make([]netip.Prefix, 1)}} {
		if _, err := guard.NewNetworks(bad.trusted, bad.banned); err == nil || !strings.Contains(err.Error(), "networks: invalid network") {
			t.Errorf("NewNetworks(%v) error = %v", bad, err)
		}
	}
}

// reputationFunc makes a Reputation of a function.
type reputationFunc func(netip.Addr) (guard.Standing, error)

func (f reputationFunc) Of(_ context.Context, a netip.Addr) (guard.Standing, error) { return f(a) }

func TestReputationInGuard(t *testing.T) {
	t.Parallel()
	fails := &failures{}
	o := only(t, newClock().now)
	o.Failed = fails.add
	o.Check = guard.Limit{Count: 1, Per: time.Minute}
	o.Name = guard.Limit{Count: 3, Per: time.Minute}
	o.Reputation = reputationFunc(func(a netip.Addr) (guard.Standing, error) {
		switch a {
		case addr("192.0.2.1"):
			return guard.Trusted, nil
		case addr("192.0.2.2"):
			return guard.Banned, nil
		case addr("192.0.2.3"):
			return guard.Banned, errors.New("cannot tell")
		}
		return guard.Unknown, nil
	})
	g := newGuard(t, o)
	f := func(a string, want ...guard.Outcome) {
		t.Helper()
		for i, want := range want {
			if v := g.Check(t.Context(), guard.Request{Addr: addr(a), Name: a}); v.Outcome != want {
				t.Errorf("check %d of %s = %+v, want %s", i, a, v, want)
			}
		}
	}
	f("192.0.2.1", guard.Pass, guard.Pass, guard.Pass, guard.Limited) // exempt from the limit per address alone
	f("192.0.2.2", guard.Refused, guard.Refused)
	f("192.0.2.3", guard.Pass, guard.Limited) // unknown: passes, and is limited as anybody
	f("192.0.2.4", guard.Pass, guard.Limited)
	if v := g.Register(t.Context(), guard.Request{Addr: addr("192.0.2.2")}); v.Outcome != guard.Refused {
		t.Errorf("registration of the banned = %+v", v)
	}
	if s := stat(t, g, guard.CheckReputation); s.Errors != 2 || fails.count() != 2 || s.Outcomes[guard.Exempt] != 4 || s.Outcomes[guard.Refused] != 3 {
		t.Errorf("counted %+v, reported %q", s, fails.list)
	}
}
