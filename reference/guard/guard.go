package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultEntries is how many addresses or names a limiter remembers.
const DefaultEntries = 1 << 16

// Options are the options of a Guard.
type Options struct {
	// Now is the clock, usually time.Now.
	Now func() time.Time
	// Failed is told of every check that could not decide. It must not block.
	Failed func(check string, err error)

	Instance Limit // all requests of this instance; default 1000 per second
	Check    Limit // checks per address; default 60 per minute
	Attempt  Limit // attempts opened per address; default 30 per minute
	Register Limit // registrations per address; default 10 per minute
	Name     Limit // checks per name; default 100 per second
	// Entries is the room of each limiter, 25 bytes an entry, rounded up to a
	// power of two; 0 means DefaultEntries. When it is full, nobody's limit is
	// reset, but newcomers may be limited early.
	Entries int

	Reputation Reputation // nil: nothing is known about anybody
	// Gate and Captcha protect registrations; without both there is no captcha.
	// GateOnError is what happens to registrations while Redis cannot be asked.
	Gate        *Gate
	GateOnError Policy
	Captcha     Captcha

	// More are further checks of the caller's, placed among the guard's own.
	More []Node
}

// Guard decides which requests meet the layers behind it. It is safe for
// concurrent use.
type Guard struct {
	tree    *Tree
	names   *nameLimit // nil if names are not limited
	captcha Captcha
	now     func() time.Time
	failed  func(check string, err error)
}

// Attempt is an open attempt to register. It can be used once, within the life
// of its marker.
type Attempt struct {
	ID        string
	Challenge *Challenge // must be solved first; nil if none
}

// The names of the guard's own checks, which can be parents of further ones.
const (
	CheckReputation      = "reputation"
	CheckCheckAddress    = "check_address"
	CheckAttemptAddress  = "attempt_address"
	CheckRegisterAddress = "register_address"
	CheckCaptcha         = "captcha"
	CheckName            = "name"
	CheckInstance        = "instance"
	CheckAsk             = "ask"
	CheckGate            = "gate"
)

// New returns a Guard, or an error that names everything wrong with the options.
func New(o Options) (*Guard, error) {
	if o.Now == nil || o.Failed == nil {
		return nil, errors.New("guard needs a clock and somebody to tell of failures")
	}
	if (o.Gate == nil) != (o.Captcha == nil) {
		return nil, errors.New("guard needs both a gate and a captcha, or neither")
	}
	o = o.withDefaults()
	b := builder{Options: o, start: o.Now()}
	names := b.names()
	g := &Guard{captcha: o.Captcha, now: o.Now, failed: o.Failed}
	g.names, _ = names.(*nameLimit)
	nodes := []Node{
		{Name: CheckReputation, Tier: Local, Order: 10, On: allPaths, Checker: reputationCheck{o.Reputation}},
		{Name: CheckCheckAddress, Parent: CheckReputation, Tier: Local, Order: 20, On: CheckPath, Checker: b.address(o.Check)},
		{Name: CheckAttemptAddress, Parent: CheckReputation, Tier: Local, Order: 20, On: AttemptPath, Checker: b.address(o.Attempt)},
		{Name: CheckRegisterAddress, Parent: CheckReputation, Tier: Local, Order: 20, On: RegisterPath, Checker: b.address(o.Register)},
		{Name: CheckName, Tier: Local, Order: 30, On: CheckPath, Checker: names},
		{Name: CheckCaptcha, Tier: Local, Order: 30, On: RegisterPath, OnError: FailClosed, Checker: b.captcha()},
		{Name: CheckInstance, Tier: Local, Order: 40, On: allPaths, Checker: b.instance()},
		{Name: CheckAsk, Tier: Remote, Order: 10, On: AttemptPath, OnError: o.GateOnError, Checker: b.ask()},
		{Name: CheckGate, Parent: CheckCaptcha, Tier: Remote, Order: 10, On: RegisterPath, OnError: o.GateOnError, Checker: b.gate()},
	}
	nodes = slices.DeleteFunc(nodes, func(n Node) bool { return n.Checker == nil }) // switched off
	tree, err := NewTree(append(nodes, o.More...), o.Now, o.Failed)
	if err := errors.Join(append(b.errs, err)...); err != nil {
		return nil, err
	}
	g.tree = tree
	return g, nil
}

// Check judges a look-up of r.Name by r.Addr.
func (g *Guard) Check(ctx context.Context, r Request) Verdict {
	return g.tree.Run(ctx, CheckPath, r)
}

// Answered tells the guard what a layer behind it knows about a name, so that
// it can be the last answer: after each check that passed, and after each
// registration.
func (g *Guard) Answered(name string, taken bool) {
	if g.names != nil {
		g.names.answered(name, taken, g.now())
	}
}

// Begin opens an attempt to register, for r.Addr. The attempt is valid if the
// verdict is Pass.
func (g *Guard) Begin(ctx context.Context, r Request) (Attempt, Verdict) {
	r.Attempt = rand.Text()
	v := g.tree.Run(ctx, AttemptPath, r)
	switch {
	case v.Outcome == Pass:
		return Attempt{ID: r.Attempt}, v
	case v.Check != CheckAsk || v.Outcome != ChallengeRequired:
		return Attempt{}, v
	}
	c, err := g.captcha.Issue(ctx, r.Attempt)
	if err != nil {
		g.failed(CheckCaptcha, fmt.Errorf("issue challenge: %w", err))
		return Attempt{}, undecided(CheckCaptcha)
	}
	return Attempt{ID: r.Attempt, Challenge: &c}, Verdict{}
}

// Register judges a registration of r.Name by r.Addr with r.Attempt and, if it
// was challenged, r.Token and r.Answer. A verdict of Pass has used the attempt
// up.
func (g *Guard) Register(ctx context.Context, r Request) Verdict {
	return g.tree.Run(ctx, RegisterPath, r)
}

// Stats returns the figures of all checks, in running order.
func (g *Guard) Stats() []Stats { return g.tree.Stats() }
