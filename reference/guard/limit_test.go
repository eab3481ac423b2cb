package guard_test

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/guard"
)

var off = guard.Limit{Count: -1}

// only returns options with every limit switched off and failures refused.
func only(t testing.TB, now func() time.Time) guard.Options {
	t.Helper()
	return guard.Options{
		Now: now, Instance: off, Check: off, Attempt: off, Register: off, Name: off,
		Failed: func(check string, err error) { t.Errorf("check %s could not decide: %v", check, err) },
	}
}

// passes sends n requests and returns how many passed and the last verdict.
func passes(t *testing.T, run func() guard.Verdict, n int) (passed int, last guard.Verdict) {
	t.Helper()
	for range n {
		if last = run(); last.Outcome == guard.Pass {
			passed++
		}
	}
	return passed, last
}

// TestLimitExact drives each limit to its end and then waits exactly as long as
// it is told to, and a nanosecond less.
func TestLimitExact(t *testing.T) {
	t.Parallel()
	f := func(check string, set func(*guard.Options, guard.Limit), run func(*guard.Guard, guard.Request) guard.Verdict, l guard.Limit) {
		t.Helper()
		c := newClock()
		o := only(t, c.now)
		set(&o, l)
		g := newGuard(t, o)
		c.advance(l.Per/3 + 1)
		r := guard.Request{Addr: addr("192.0.2.1"), Name: "love"}
		one := func() guard.Verdict { return run(g, r) }
		passed, v := passes(t, one, l.Count+5)
		if passed != l.Count || v.Outcome != guard.Limited || v.Check != check || v.RetryAfter <= 0 || v.RetryAfter > l.Per {
			t.Fatalf("%s of %s: %d passed, then %+v", check, l, passed, v)
		}
		wait := v.RetryAfter
		c.advance(wait - 1)
		if v := one(); v.Outcome != guard.Limited || v.RetryAfter != 1 {
			t.Errorf("%s of %s: a nanosecond early %+v, want limited for another", check, l, v)
		}
		c.advance(1)
		if v := one(); v.Outcome != guard.Pass {
			t.Errorf("%s of %s: after exactly %s %+v, want a pass", check, l, wait, v)
		}
		c.advance(2 * l.Per)
		if passed, _ := passes(t, one, l.Count+5); passed != l.Count {
			t.Errorf("%s of %s: %d passed after a rest, want all %d again", check, l, passed, l.Count)
		}
	}
	check := func(g *guard.Guard, r guard.Request) guard.Verdict { return g.Check(t.Context(), r) }
	register := func(g *guard.Guard, r guard.Request) guard.Verdict { return g.Register(t.Context(), r) }
	begin := func(g *guard.Guard, r guard.Request) guard.Verdict { _, v := g.Begin(t.Context(), r); return v }
	for _, l := range []guard.Limit{{Count: 60, Per: time.Minute}, {Count: 1, Per: time.Second}, {Count: 7, Per: time.Minute}, {Count: 1000, Per: time.Second}} {
		f(guard.CheckInstance, func(o *guard.Options, l guard.Limit) { o.Instance = l }, check, l)
		f(guard.CheckCheckAddress, func(o *guard.Options, l guard.Limit) { o.Check = l }, check, l)
		f(guard.CheckAttemptAddress, func(o *guard.Options, l guard.Limit) { o.Attempt = l }, begin, l)
		f(guard.CheckRegisterAddress, func(o *guard.Options, l guard.Limit) { o.Register = l }, register, l)
		f(guard.CheckName, func(o *guard.Options, l guard.Limit) { o.Name = l }, check, l)
	}
}

func TestLimitDefaults(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGuard(t, guard.Options{Now: c.now, Failed: (&failures{}).add})
	f := func(what string, run func(i int) guard.Verdict, n, want int, check string, retry time.Duration) {
		t.Helper()
		passed := 0
		var last guard.Verdict
		for i := range n {
			if last = run(i); last.Outcome == guard.Pass {
				passed++
			}
		}
		if passed != want || last.Check != check || last.RetryAfter != retry {
			t.Errorf("%s: %d of %d passed, then %+v, want %d, then %s for %s", what, passed, n, last, want, check, retry)
		}
		c.advance(time.Hour)
	}
	one := guard.Request{Addr: addr("192.0.2.1")}
	many := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	check := func(a netip.Addr, name string) guard.Verdict {
		return g.Check(t.Context(), guard.Request{Addr: a, Name: name})
	}
	f("checks of one address", func(i int) guard.Verdict { return check(one.Addr, strconv.Itoa(i)) }, 70, 60, guard.CheckCheckAddress, time.Second)
	f("registrations of one address", func(int) guard.Verdict { return g.Register(t.Context(), one) }, 20, 10, guard.CheckRegisterAddress, 6*time.Second)
	f("attempts of one address", func(int) guard.Verdict { _, v := g.Begin(t.Context(), one); return v }, 40, 30, guard.CheckAttemptAddress, 2*time.Second)
	f("checks of one name", func(i int) guard.Verdict { return check(many(i), "love") }, 150, 100, guard.CheckName, 10*time.Millisecond)
	f("checks of all", func(i int) guard.Verdict { return check(many(i), strconv.Itoa(i)) }, 1100, 1000, guard.CheckInstance, time.Second)
}

// TestLimitOwnBudget makes sure that a flood of one client or for one name does
// not spend the budget that all share.
func TestLimitOwnBudget(t *testing.T) {
	t.Parallel()
	c := newClock()
	o := only(t, c.now)
	o.Instance, o.Check, o.Name = guard.Limit{Count: 30, Per: time.Second}, guard.Limit{Count: 10, Per: time.Minute}, guard.Limit{Count: 10, Per: time.Second}
	g := newGuard(t, o)
	run := func(a, name string) guard.Verdict {
		return g.Check(t.Context(), guard.Request{Addr: addr(a), Name: name})
	}
	passes(t, func() guard.Verdict { return run("192.0.2.1", "one") }, 1000)
	for i := range 1000 {
		run(fmt.Sprintf("198.51.100.%d", i%250), "hot")
	}
	if v := run("192.0.2.2", "other"); v.Outcome != guard.Pass {
		t.Errorf("another client's check = %+v, want a pass", v)
	}
}

func TestLimitAddresses(t *testing.T) {
	t.Parallel()
	c := newClock()
	f := func(first, second netip.Addr, shared bool) {
		t.Helper()
		o := only(t, c.now)
		o.Check = guard.Limit{Count: 1, Per: time.Minute}
		g := newGuard(t, o)
		g.Check(t.Context(), guard.Request{Addr: first})
		if v := g.Check(t.Context(), guard.Request{Addr: second}); (v.Outcome == guard.Limited) != shared {
			t.Errorf("%s after %s: %s, want them to share a limit: %t", second, first, v.Outcome, shared)
		}
	}
	f(addr("192.0.2.1"), addr("192.0.2.1"), true)
	f(addr("192.0.2.1"), addr("192.0.2.2"), false)
	f(addr("192.0.2.1"), addr("::ffff:192.0.2.1"), true)
	f(addr("::ffff:192.0.2.1"), addr("::ffff:192.0.2.2"), false)
	f(addr("2001:db8::1"), addr("2001:db8::ffff:ffff:ffff:ffff"), true)
	f(addr("2001:db8::1"), addr("2001:db8:0:1::1"), false)
	f(addr("fe80::1%eth0"), addr("fe80::1%eth1"), true)
	f(addr("192.0.2.1"), addr("c000:201::"), false) // the same first bytes
	f(netip.Addr{}, netip.Addr{}, true)
	f(netip.Addr{}, addr("0.0.0.0"), false)
	f(netip.Addr{}, addr("::"), false)
}

func TestLimitInvalid(t *testing.T) {
	t.Parallel()
	f := func(set func(*guard.Options), want ...string) {
		t.Helper()
		o := only(t, time.Now)
		set(&o)
		_, err := guard.New(o)
		if err == nil {
			t.Errorf("New succeeded, want %q", want)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("New error is %q, want %q in it", err, w)
			}
		}
	}
	f(func(o *guard.Options) { o.Instance = guard.Limit{Count: 5} }, "5 per 0s must have a positive count and time")
	f(func(o *guard.Options) {
		o.Check = guard.Limit{Count: 0, Per: time.Second}
		o.Name = guard.Limit{Count: 1, Per: -1}
	}, "limit of 0 per 1s", "limit of 1 per -1ns")
	f(func(o *guard.Options) { o.Check = guard.Limit{Count: 2, Per: 1} }, "limit of 2 per 1ns is out of range")
	f(func(o *guard.Options) { o.Check = guard.Limit{Count: 1, Per: math.MaxInt64} }, "out of range")
	f(func(o *guard.Options) { o.Instance = guard.Limit{Count: math.MaxInt32 + 1, Per: time.Hour} }, "out of range")
	f(func(o *guard.Options) { o.Check, o.Entries = guard.Limit{}, -1 }, "room must be for 8 to 16777216 entries, got -1")
	f(func(o *guard.Options) { o.Check, o.Entries = guard.Limit{}, 1<<24+1 }, "got 16777217")
	f(func(o *guard.Options) { o.Now = nil }, "needs a clock")
	f(func(o *guard.Options) { o.Failed = nil }, "somebody to tell of failures")
	f(func(o *guard.Options) { o.Captcha = newProof(t, time.Now) }, "both a gate and a captcha")
	f(func(o *guard.Options) {
		o.More = []guard.Node{{Name: "extra", Parent: guard.CheckGate, On: guard.RegisterPath}}
	}, `check "extra" checks nothing`, `check "extra" has the unknown parent "gate"`)
	if got := off.String(); got != "unlimited" {
		t.Errorf("String of no limit = %q", got)
	}
}

func TestLastAnswer(t *testing.T) {
	t.Parallel()
	c := newClock()
	o := only(t, c.now)
	o.Name = guard.Limit{Count: 10, Per: 10 * time.Hour} // one an hour: limited throughout the test
	g := newGuard(t, o)
	f := func(name, want string) {
		t.Helper()
		v := g.Check(t.Context(), guard.Request{Name: name})
		got := v.Outcome.String()
		if v.Outcome == guard.LastAnswer {
			got = fmt.Sprintf("taken: %t", v.Taken)
		}
		if got != want {
			t.Errorf("%s is %s (%+v), want %s", name, got, v, want)
		}
	}
	g.Answered("love", true) // nobody asked: nothing to note it in
	passes(t, func() guard.Verdict { return g.Check(t.Context(), guard.Request{Name: "love"}) }, 10)
	f("love", "limited")
	f("cat", "pass") // another name
	g.Answered("love", false)
	f("love", "taken: false")
	c.advance(time.Second)
	f("love", "taken: false")
	c.advance(1)
	f("love", "limited") // free is soon no longer true
	g.Answered("love", true)
	f("love", "taken: true")
	g.Answered("love", false) // of a look-up that began before the registration
	f("love", "taken: true")
	c.advance(5 * time.Second)
	f("love", "taken: true")
	c.advance(1)
	f("love", "limited")
	g.Answered("love", false)
	f("love", "taken: false")
	c.advance(-time.Hour) // the clock is set back
	f("love", "limited")

	if got := stat(t, g, guard.CheckName).Outcomes[guard.LastAnswer]; got != 6 {
		t.Errorf("%d last answers counted, want 6", got)
	}

	o.Name = off
	newGuard(t, o).Answered("love", true) // no limit, nothing to note
}

// TestLimitClockSetBack makes sure that a clock that jumps ahead and back locks
// nobody out for longer than the limit's own time.
func TestLimitClockSetBack(t *testing.T) {
	t.Parallel()
	f := func(check string, set func(*guard.Options, guard.Limit)) {
		t.Helper()
		c := newClock()
		o := only(t, c.now)
		set(&o, guard.Limit{Count: 10, Per: time.Minute})
		g := newGuard(t, o)
		run := func() guard.Verdict {
			return g.Check(t.Context(), guard.Request{Addr: addr("192.0.2.1"), Name: "love"})
		}
		for _, jump := range []time.Duration{time.Hour, -time.Hour, -time.Hour, -30 * 24 * time.Hour} {
			c.advance(jump)
			if _, v := passes(t, run, 100); v.RetryAfter > time.Minute {
				t.Errorf("%s: after a jump of %s %+v", check, jump, v)
			}
			c.advance(time.Minute)
			if passed, v := passes(t, run, 20); passed != 10 {
				t.Errorf("%s: a minute after a jump of %s %d passed, then %+v, want 10", check, jump, passed, v)
			}
		}
	}
	f(guard.CheckInstance, func(o *guard.Options, l guard.Limit) { o.Instance = l })
	f(guard.CheckCheckAddress, func(o *guard.Options, l guard.Limit) { o.Check = l })
	f(guard.CheckName, func(o *guard.Options, l guard.Limit) { o.Name = l })
}

// TestLimitConcurrent makes sure that not one request too many passes.
func TestLimitConcurrent(t *testing.T) {
	t.Parallel()
	c := newClock()
	f := func(check string, set func(*guard.Options)) {
		t.Helper()
		o := only(t, c.now)
		set(&o)
		g := newGuard(t, o)
		var passed atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 500 {
					if g.Check(t.Context(), guard.Request{Addr: addr("192.0.2.1"), Name: "love"}).Outcome == guard.Pass {
						passed.Add(1)
					}
					g.Answered("other", true)
				}
			})
		}
		group.Wait()
		s := stat(t, g, check)
		if passed.Load() != 1000 || s.Outcomes[guard.Pass] != 1000 || s.Outcomes[guard.Limited] != 3000 {
			t.Errorf("%s: %d passed, counted %v, want 1000 and 3000 limited", check, passed.Load(), s.Outcomes)
		}
	}
	l := guard.Limit{Count: 1000, Per: time.Minute}
	f(guard.CheckInstance, func(o *guard.Options) { o.Instance = l })
	f(guard.CheckCheckAddress, func(o *guard.Options) { o.Check = l })
	f(guard.CheckName, func(o *guard.Options) { o.Name = l })
}

// TestLimitFlood floods a small limiter with addresses. The one who is limited
// before must still be limited after, whatever the flood, and memory must not
// grow.
func TestLimitFlood(t *testing.T) {
	t.Parallel()
	c := newClock()
	o := only(t, c.now)
	o.Check, o.Entries = guard.Limit{Count: 10, Per: time.Minute}, 64
	g := newGuard(t, o)
	run := func(a netip.Addr) guard.Verdict { return g.Check(t.Context(), guard.Request{Addr: a}) }
	victim := addr("192.0.2.1")
	passed, _ := passes(t, func() guard.Verdict { return run(victim) }, 11)
	other := uint32(0)
	for range 20 {
		for range 5000 {
			other++
			run(netip.AddrFrom4([4]byte{10, byte(other >> 16), byte(other >> 8), byte(other)}))
		}
		if run(victim).Outcome == guard.Pass {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("%d requests of one address passed, want 10: the flood reset the limit", passed)
	}
	if s := stat(t, g, guard.CheckCheckAddress); s.Evicted == 0 || s.Outcomes[guard.Pass] > 64*10 {
		t.Errorf("%d evicted, %d passed, want some and at most 640", s.Evicted, s.Outcomes[guard.Pass])
	}
	c.advance(time.Minute)
	if passed, _ := passes(t, func() guard.Verdict { return run(victim) }, 20); passed != 10 {
		t.Errorf("%d passed after the flood, want 10", passed)
	}
}

// TestLimitNeverExceeded compares with an account of its own per address, of
// unlimited memory: under random load on a table far too small, nobody may get
// more than that allows.
func TestLimitNeverExceeded(t *testing.T) {
	t.Parallel()
	const addresses, count = 100, 5
	c := newClock()
	o := only(t, c.now)
	o.Check, o.Entries = guard.Limit{Count: count, Per: time.Second}, 16
	g := newGuard(t, o)
	tokens := [addresses]float64{}
	for i := range tokens {
		tokens[i] = count
	}
	random := uint64(1)
	for step := range 50_000 {
		random = random*6364136223846793005 + 1442695040888963407
		who := int(random >> 33 % addresses)
		if random>>40&1 == 0 {
			who %= 3 // some ask far more often than others
		}
		d := time.Duration(random>>20%4) * time.Millisecond
		c.advance(d)
		for i := range tokens {
			tokens[i] = min(count, tokens[i]+count*d.Seconds())
		}
		if g.Check(t.Context(), guard.Request{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(who)})}).Outcome != guard.Pass {
			continue
		}
		if tokens[who]--; tokens[who] < -1e-6 {
			t.Fatalf("step %d: address %d got more than its limit", step, who)
		}
	}
	if stat(t, g, guard.CheckCheckAddress).Evicted == 0 {
		t.Error("nothing was evicted: the test has tested nothing")
	}
}
