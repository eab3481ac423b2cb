package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/guard"
)

// checkFunc makes a check of a function.
type checkFunc func(ctx context.Context, r guard.Request) (guard.Verdict, error)

func (f checkFunc) Check(ctx context.Context, r guard.Request) (guard.Verdict, error) {
	return f(ctx, r)
}

// trace is a list of checks asked, in order.
type trace []string

func (tr *trace) says(name string, o guard.Outcome, err error) guard.Checker {
	return checkFunc(func(context.Context, guard.Request) (guard.Verdict, error) {
		*tr = append(*tr, name)
		return guard.Verdict{Outcome: o}, err
	})
}

func TestTreeOrder(t *testing.T) {
	t.Parallel()
	var asked trace
	node := func(name, parent string, tier guard.Tier, order int, on guard.Path) guard.Node {
		return guard.Node{Name: name, Parent: parent, Tier: tier, Order: order, On: on, Checker: asked.says(name, guard.Pass, nil)}
	}
	const all = guard.CheckPath | guard.AttemptPath | guard.RegisterPath
	tree, err := guard.NewTree([]guard.Node{
		node("cheap child of dear", "dear", guard.Local, -5, all),
		node("dear", "", guard.Remote, 1, all),
		node("third", "", guard.Local, 3, all),
		node("grandchild", "child", guard.Local, 0, guard.RegisterPath),
		node("child", "first", guard.Local, 9, guard.RegisterPath|guard.CheckPath),
		node("first", "", guard.Local, 1, all),
		node("third, listed later", "", guard.Local, 3, all),
		node("dearest", "", guard.Remote, 2, all),
	}, time.Now, (&failures{}).add)
	if err != nil {
		t.Fatal(err)
	}
	f := func(path guard.Path, want ...string) {
		t.Helper()
		asked = nil
		if v := tree.Run(t.Context(), path, guard.Request{}); v != (guard.Verdict{}) {
			t.Errorf("Run(%d) = %+v, want a pass", path, v)
		}
		if !slices.Equal(asked, want) {
			t.Errorf("Run(%d) asked %q, want %q", path, asked, want)
		}
	}
	f(guard.AttemptPath, "first", "third", "third, listed later", "dear", "cheap child of dear", "dearest")
	f(guard.CheckPath, "first", "third", "third, listed later", "child", "dear", "cheap child of dear", "dearest")
	f(guard.RegisterPath, "first", "third", "third, listed later", "child", "grandchild", "dear", "cheap child of dear", "dearest")
	f(guard.CheckPath | guard.AttemptPath) // no path, but a set of them
	f(0)
	if got := tree.Stats(); len(got) != 8 || got[0].Check != "first" || got[0].Outcomes[guard.Pass] != 3 {
		t.Errorf("Stats = %+v, want first to have passed 3", got)
	}
}

func TestTreeOutcomes(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	// f runs parent, child, grandchild, other, of which the child says o or err.
	f := func(o guard.Outcome, childErr error, p guard.Policy, want guard.Verdict, wantAsked ...string) {
		t.Helper()
		var asked trace
		fails := &failures{}
		tree, err := guard.NewTree([]guard.Node{
			{Name: "parent", Order: 1, On: guard.CheckPath, Checker: asked.says("parent", guard.Pass, nil)},
			{Name: "child", Parent: "parent", Order: 2, On: guard.CheckPath, OnError: p, Checker: asked.says("child", o, childErr)},
			{Name: "grandchild", Parent: "child", Order: 3, On: guard.CheckPath, Checker: asked.says("grandchild", guard.Pass, nil)},
			{Name: "great-grandchild", Parent: "grandchild", Order: 4, On: guard.CheckPath, Checker: asked.says("great-grandchild", guard.Pass, nil)},
			{Name: "other", Order: 5, On: guard.CheckPath, Checker: asked.says("other", guard.Pass, nil)},
		}, time.Now, fails.add)
		if err != nil {
			t.Fatal(err)
		}
		got := tree.Run(t.Context(), guard.CheckPath, guard.Request{})
		got.Reason = ""
		if got != want || !slices.Equal(asked, wantAsked) {
			t.Errorf("child says %s, %v: got %+v after %q, want %+v after %q", o, childErr, got, asked, want, wantAsked)
		}
		s := tree.Stats()[1]
		if childErr != nil && (s.Errors != 1 || s.Outcomes[o] != 0 || fails.count() != 1 || s.OnError != p) {
			t.Errorf("error was counted as %+v and reported as %q", s, fails.list)
		}
		if childErr == nil && (s.Errors != 0 || s.Outcomes[o] != 1 || fails.count() != 0) {
			t.Errorf("%s was counted as %+v and reported as %q", o, s, fails.list)
		}
	}
	open, closed := guard.FailOpen, guard.FailClosed
	all := []string{"parent", "child", "grandchild", "great-grandchild", "other"}
	f(guard.Pass, nil, open, guard.Verdict{}, all...)
	f(guard.Exempt, nil, open, guard.Verdict{}, "parent", "child", "other")
	for _, o := range []guard.Outcome{guard.LastAnswer, guard.Limited, guard.ChallengeRequired, guard.Refused} {
		f(o, nil, open, guard.Verdict{Outcome: o, Check: "child"}, "parent", "child")
	}
	f(guard.Pass, broken, open, guard.Verdict{}, all...)
	f(guard.Refused, broken, open, guard.Verdict{}, all...) // a verdict beside an error counts for nothing
	f(guard.Pass, broken, closed, guard.Verdict{Outcome: guard.Unavailable, Check: "child", RetryAfter: time.Second}, "parent", "child")
}

// TestTreeHungUp makes sure that nobody passes a check by closing the
// connection while it works.
func TestTreeHungUp(t *testing.T) {
	t.Parallel()
	fails := &failures{}
	tree, err := guard.NewTree([]guard.Node{{
		Name: "slow", On: guard.RegisterPath, OnError: guard.FailOpen,
		Checker: checkFunc(func(ctx context.Context, _ guard.Request) (guard.Verdict, error) {
			return guard.Verdict{}, fmt.Errorf("ask: %w", ctx.Err())
		}),
	}}, time.Now, fails.add)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if v := tree.Run(gone, guard.RegisterPath, guard.Request{}); v.Outcome != guard.Unavailable {
		t.Errorf("Run without a client = %+v, want unavailable", v)
	}
	if fails.count() != 0 {
		t.Errorf("a client that hung up was reported as a failure: %q", fails.list)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if v := tree.Run(late, guard.RegisterPath, guard.Request{}); v.Outcome != guard.Unavailable || fails.count() != 1 {
		t.Errorf("Run past the deadline = %+v with %d reports, want unavailable and 1", v, fails.count())
	}
}

func TestTreeInvalid(t *testing.T) {
	t.Parallel()
	var asked trace
	pass := asked.says("", guard.Pass, nil)
	node := func(name, parent string, on guard.Path) guard.Node {
		return guard.Node{Name: name, Parent: parent, On: on, Checker: pass}
	}
	f := func(nodes []guard.Node, want ...string) {
		t.Helper()
		_, err := guard.NewTree(nodes, time.Now, (&failures{}).add)
		if err == nil {
			t.Errorf("NewTree succeeded, want %q", want)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("NewTree error is %q, want %q in it", err, w)
			}
		}
	}
	c, r := guard.CheckPath, guard.RegisterPath
	f([]guard.Node{node("a", "", c), node("b", "x", c), node("b", "", c), node("", "", c), {Name: "n", On: c}, node("p", "", 0), node("q", "", 8)},
		`check "b" has the unknown parent "x"`, `check "b" is there twice`, "check 3 has no name",
		`check "n" checks nothing`, `check "p" stands in no known path`, `check "q" stands in no known path`)
	f([]guard.Node{node("a", "", c), node("b", "a", c|r)}, `check "b" stands in a path where its parent "a" does not`)
	f([]guard.Node{node("a", "a", c)}, "checks form a cycle: a below a")
	f([]guard.Node{node("ok", "", c), node("a", "b", c), node("b", "c", c), node("c", "a", c), node("below", "a", c)}, "checks form a cycle: b below c below a below b")
	f(slices.Repeat([]guard.Node{node("a", "", c)}, 65), "65 checks, at most 64 are possible")
}

func TestTreeLatency(t *testing.T) {
	t.Parallel()
	c := newClock()
	slow := func(d time.Duration) guard.Checker {
		return checkFunc(func(context.Context, guard.Request) (guard.Verdict, error) {
			c.advance(d)
			return guard.Verdict{}, nil
		})
	}
	tree, err := guard.NewTree([]guard.Node{
		{Name: "local", Tier: guard.Local, On: guard.CheckPath, Checker: slow(2 * time.Microsecond)},
		{Name: "remote", Tier: guard.Remote, On: guard.CheckPath, Checker: slow(time.Second)},
	}, c.now, (&failures{}).add)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	for range n {
		tree.Run(t.Context(), guard.CheckPath, guard.Request{})
	}
	local, remote := tree.Stats()[0].Latency, tree.Stats()[1].Latency
	if got := local.Counts[1]; got < n/128 || got > n/32 || local.Sum != time.Duration(got)*2*time.Microsecond {
		t.Errorf("%d of %d local runs timed, in sum %s, want about one in 64", got, n, local.Sum)
	}
	if got := remote.Counts[len(remote.Le)]; got != n || remote.Sum != n*time.Second {
		t.Errorf("%d of %d remote runs timed, in sum %s, want all", got, n, remote.Sum)
	}
}
