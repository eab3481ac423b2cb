package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Node is a check and its place in a Tree.
type Node struct {
	// Name identifies the check, in metrics too.
	Name string
	// Parent is the name of a node that runs first and can exempt a request
	// from this one; empty for none.
	Parent string
	// Tier and Order rank the nodes whose parents have run: cheap tiers first,
	// low orders first, and equals as they were listed.
	Tier  Tier
	Order int
	// On says which paths the check stands in. A parent stands in all of its
	// children's.
	On Path
	// OnError decides where Checker cannot.
	OnError Policy
	Checker Checker
}

const (
	// maxNodes is the width of the bit set of exempted nodes.
	maxNodes = 64
	// timedOneIn thins the timing of local checks, which reading the clock
	// would make twice as dear. Remote ones are always timed.
	timedOneIn = 64
	// retryUndecided is what a client is told to wait when a check failed closed.
	retryUndecided = time.Second
)

// Tree runs checks in order. It is safe for concurrent use.
type Tree struct {
	steps  []*step
	plans  [paths][]*step
	now    func() time.Time
	failed func(check string, err error)
}

// step is a node in running order.
type step struct {
	Node

	bit, parent uint64 // this node and its parent in a set of nodes
	counters    counters
}

// NewTree puts the nodes in order. now is the clock, usually time.Now; failed
// is told of every check that could not decide and must not block. The error
// names everything that is wrong with the nodes, not only the first.
func NewTree(nodes []Node, now func() time.Time, failed func(check string, err error)) (*Tree, error) {
	if err := validate(nodes); err != nil {
		return nil, err
	}
	t := &Tree{now: now, failed: failed}
	placed := make(map[string]uint64, len(nodes))
	for len(t.steps) < len(nodes) {
		best := -1
		for i, n := range nodes {
			_, done := placed[n.Name]
			_, ready := placed[n.Parent]
			if !done && (ready || n.Parent == "") && (best < 0 || before(n, nodes[best])) {
				best = i
			}
		}
		if best < 0 {
			return nil, fmt.Errorf("checks form a cycle: %s", cycle(nodes, placed))
		}
		n := nodes[best]
		s := &step{Node: n, bit: 1 << len(t.steps), parent: placed[n.Parent]}
		placed[n.Name] = s.bit
		t.steps = append(t.steps, s)
		for i := range t.plans {
			if n.On&(1<<i) != 0 {
				t.plans[i] = append(t.plans[i], s)
			}
		}
	}
	return t, nil
}

func before(a, b Node) bool {
	return a.Tier < b.Tier || a.Tier == b.Tier && a.Order < b.Order
}

func validate(nodes []Node) error {
	var errs []error
	if len(nodes) > maxNodes {
		errs = append(errs, fmt.Errorf("%d checks, at most %d are possible", len(nodes), maxNodes))
	}
	known := make(map[string]Node, len(nodes))
	for i, n := range nodes {
		_, twice := known[n.Name]
		switch {
		case n.Name == "":
			errs = append(errs, fmt.Errorf("check %d has no name", i))
		case twice:
			errs = append(errs, fmt.Errorf("check %q is there twice", n.Name))
		case n.Checker == nil:
			errs = append(errs, fmt.Errorf("check %q checks nothing", n.Name))
		case n.On == 0 || n.On > allPaths:
			errs = append(errs, fmt.Errorf("check %q stands in no known path", n.Name))
		}
		known[n.Name] = n
	}
	for _, n := range nodes {
		if n.Parent == "" {
			continue
		}
		switch p, ok := known[n.Parent]; {
		case !ok:
			errs = append(errs, fmt.Errorf("check %q has the unknown parent %q", n.Name, n.Parent))
		case n.On&^p.On != 0:
			errs = append(errs, fmt.Errorf("check %q stands in a path where its parent %q does not", n.Name, n.Parent))
		}
	}
	return errors.Join(errs...)
}

// cycle spells out a cycle among the nodes that could not be placed.
func cycle(nodes []Node, placed map[string]uint64) string {
	parent := make(map[string]string, len(nodes))
	at := ""
	for _, n := range nodes {
		parent[n.Name] = n.Parent
		if _, done := placed[n.Name]; !done {
			at = n.Name
		}
	}
	for range nodes { // however far below the cycle it began, it is in it now
		at = parent[at]
	}
	ring := []string{at}
	for next := parent[at]; next != at; next = parent[next] {
		ring = append(ring, next)
	}
	return strings.Join(append(ring, at), " below ")
}

// Run asks the checks of one path until one ends the request. The verdict is
// Pass when none did.
func (t *Tree) Run(ctx context.Context, path Path, r Request) Verdict {
	r.At = t.now()
	timed := rand.Uint32()%timedOneIn == 0
	var exempt uint64
	for _, s := range t.plan(path) {
		if exempt&s.parent != 0 {
			exempt |= s.bit
			continue
		}
		v, err := t.ask(ctx, s, r, timed)
		switch {
		case err != nil:
			if !t.passes(ctx, s, err) {
				return undecided(s.Name)
			}
		case v.Outcome == Exempt:
			exempt |= s.bit
		case v.Outcome != Pass:
			v.Check = s.Name
			return v
		}
	}
	return Verdict{}
}

// undecided is the verdict when a check fails closed.
func undecided(check string) Verdict {
	return Verdict{Outcome: Unavailable, Check: check, Reason: "the request could not be checked", RetryAfter: retryUndecided}
}

func (t *Tree) plan(path Path) []*step {
	for i := range t.plans {
		if path == 1<<i {
			return t.plans[i]
		}
	}
	return nil
}

// ask asks one check and accounts for it.
func (t *Tree) ask(ctx context.Context, s *step, r Request, timed bool) (Verdict, error) {
	if !timed && s.Tier == Local {
		v, err := s.Checker.Check(ctx, r)
		s.counters.count(v, err)
		return v, err
	}
	start := t.now()
	v, err := s.Checker.Check(ctx, r)
	s.counters.time(t.now().Sub(start))
	s.counters.count(v, err)
	return v, err
}

// passes says whether a request passes a check that failed with err. That a
// client hung up is no failure worth a report, and never a way through.
func (t *Tree) passes(ctx context.Context, s *step, err error) bool {
	gone := ctx.Err() != nil
	if !gone || !errors.Is(err, context.Canceled) {
		t.failed(s.Name, err)
	}
	return s.OnError == FailOpen && !gone
}
