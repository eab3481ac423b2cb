package guard_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/guard"
)

// instance returns a guard as one of several instances would have it, with the
// gate on.
func instance(t *testing.T, s server, c *clock, threshold int) *guard.Guard {
	t.Helper()
	o := only(t, c.now)
	o.Gate = newGate(t, s.client(t), guard.GateOptions{Window: quiet, Threshold: threshold})
	o.Captcha = newProof(t, c.now)
	return newGuard(t, o)
}

func begin(t *testing.T, g *guard.Guard) guard.Attempt {
	t.Helper()
	a, v := g.Begin(t.Context(), guard.Request{Addr: addr("192.0.2.1")})
	if v.Outcome != guard.Pass || a.ID == "" {
		t.Fatalf("Begin = %+v, %+v", a, v)
	}
	return a
}

// solve does what a client does with an attempt.
func solve(t *testing.T, a guard.Attempt) guard.Request {
	t.Helper()
	r := guard.Request{Addr: addr("192.0.2.1"), Name: "love", Attempt: a.ID}
	if a.Challenge != nil {
		answer, err := guard.Solve(t.Context(), a.Challenge.Token)
		if err != nil {
			t.Fatal(err)
		}
		r.Token, r.Answer = a.Challenge.Token, answer
	}
	return r
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		c := newClock()
		one, two := instance(t, s, c, 1), instance(t, s, c, 1)
		f := func(g *guard.Guard, r guard.Request, want guard.Outcome, check string) {
			t.Helper()
			if v := g.Register(t.Context(), r); v.Outcome != want || v.Check != check {
				t.Errorf("Register(%+v) = %+v, want %s by %q", r, v, want, check)
			}
		}
		free, bought := begin(t, one), begin(t, two)
		if free.Challenge != nil || bought.Challenge == nil {
			t.Fatalf("attempts are %+v and %+v, want the second challenged", free, bought)
		}
		f(two, solve(t, free), guard.Pass, "")
		f(two, solve(t, free), guard.Refused, guard.CheckGate) // used up
		f(one, solve(t, free), guard.Refused, guard.CheckGate)

		solved := solve(t, bought)
		wrong := solved
		wrong.Answer += "x"
		f(one, wrong, guard.ChallengeRequired, guard.CheckCaptcha) // refused before Redis is asked: the attempt lives
		f(one, solved, guard.Pass, "")
		f(one, solved, guard.Refused, guard.CheckGate) // a solution is good for one registration
		f(two, solved, guard.Refused, guard.CheckGate)

		begin(t, one)
		unsolved := begin(t, one)
		f(one, guard.Request{Attempt: unsolved.ID}, guard.ChallengeRequired, guard.CheckGate)
		f(one, solve(t, unsolved), guard.Refused, guard.CheckGate) // it has had its one try

		// A solution for one attempt does not open another.
		begin(t, one)
		other := begin(t, one)
		stolen := solve(t, other)
		stolen.Attempt = begin(t, one).ID
		f(one, stolen, guard.ChallengeRequired, guard.CheckCaptcha)

		// Who skipped the gate.
		f(one, guard.Request{}, guard.Refused, guard.CheckGate)
		f(one, guard.Request{Attempt: rand.Text()}, guard.Refused, guard.CheckGate)
		f(one, guard.Request{Attempt: "../../etc/passwd"}, guard.Refused, guard.CheckGate)

		if got := stat(t, one, guard.CheckAsk); got.Outcomes[guard.Pass] == 0 || got.Outcomes[guard.ChallengeRequired] == 0 || got.Latency.Counts == nil {
			t.Errorf("statistics of %q: %+v", guard.CheckAsk, got)
		}
	})
}

// TestRegistrationRace sends one solved attempt to two instances from many
// goroutines at once: one registration gets through.
func TestRegistrationRace(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		c := newClock()
		guards := []*guard.Guard{instance(t, s, c, 1), instance(t, s, c, 1)}
		for range 4 {
			r := solve(t, begin(t, guards[0]))
			var passed atomic.Int64
			var group sync.WaitGroup
			for i := range 16 {
				group.Go(func() {
					if guards[i%2].Register(t.Context(), r).Outcome == guard.Pass {
						passed.Add(1)
					}
				})
			}
			group.Wait()
			if passed.Load() != 1 {
				t.Errorf("one attempt let %d registrations through", passed.Load())
			}
		}
	})
}

func TestRegistrationWithoutRedis(t *testing.T) {
	t.Parallel()
	c := newClock()
	dead := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = dead.Close() })
	f := func(p guard.Policy, want guard.Outcome) {
		t.Helper()
		fails := &failures{}
		o := only(t, c.now)
		o.Failed, o.GateOnError, o.Captcha = fails.add, p, newProof(t, c.now)
		o.Gate = newGate(t, dead, guard.GateOptions{})
		o.Register = guard.Limit{Count: 3, Per: time.Minute}
		g := newGuard(t, o)
		a, v := g.Begin(t.Context(), guard.Request{})
		if v.Outcome != want || (a.ID != "") != (want == guard.Pass) {
			t.Errorf("policy %d: Begin = %+v, %+v, want %s", p, a, v, want)
		}
		if want == guard.Unavailable && v.RetryAfter != time.Second {
			t.Errorf("policy %d: retry after %s", p, v.RetryAfter)
		}
		r := guard.Request{Attempt: rand.Text()}
		if v := g.Register(t.Context(), r); v.Outcome != want {
			t.Errorf("policy %d: Register = %+v, want %s", p, v, want)
		}
		// No policy lets pass what can be refused without Redis.
		if v := g.Register(t.Context(), guard.Request{Attempt: "x"}); v.Outcome != guard.Refused {
			t.Errorf("policy %d: Register without an attempt = %+v", p, v)
		}
		forged := r
		forged.Token, forged.Answer = "forged", "0"
		if v := g.Register(t.Context(), forged); v.Outcome != guard.ChallengeRequired {
			t.Errorf("policy %d: Register with a forged token = %+v", p, v)
		}
		if v := g.Register(t.Context(), r); v.Outcome != guard.Limited {
			t.Errorf("policy %d: Register beyond the limit = %+v", p, v)
		}
		if s := stat(t, g, guard.CheckGate); s.Errors != 1 || s.OnError != p || fails.count() != 2 {
			t.Errorf("policy %d: counted %+v, reported %q", p, s, fails.list)
		}
	}
	f(guard.FailOpen, guard.Pass)
	f(guard.FailClosed, guard.Unavailable)
}

// TestRegistrationHungUp makes sure that closing the connection does not open
// the gate: not while Redis works, and not while it does not.
func TestRegistrationHungUp(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	onEachRedis(t, func(t *testing.T, s server) {
		g := instance(t, s, newClock(), 1)
		if v := g.Register(gone, guard.Request{Attempt: rand.Text()}); v.Outcome != guard.Refused {
			t.Errorf("Register without an attempt or a client = %+v", v)
		}
	})
	dead := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = dead.Close() })
	fails := &failures{}
	o := only(t, time.Now)
	o.Failed, o.Captcha, o.Gate = fails.add, newProof(t, time.Now), newGate(t, dead, guard.GateOptions{})
	g := newGuard(t, o)
	if v := g.Register(gone, guard.Request{Attempt: rand.Text()}); v.Outcome != guard.Unavailable || fails.count() != 1 {
		t.Errorf("Register without Redis or a client = %+v, %d failures reported", v, fails.count())
	}
}

// brokenCaptcha cannot tell anything.
type brokenCaptcha struct{}

func (brokenCaptcha) Issue(context.Context, string) (guard.Challenge, error) {
	return guard.Challenge{}, errors.New("provider is down")
}

func (brokenCaptcha) Verify(context.Context, string, string, string) error {
	return errors.New("provider is down")
}

func TestRegistrationWithoutCaptcha(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, s server) {
		fails := &failures{}
		o := only(t, time.Now)
		o.Failed, o.Captcha = fails.add, brokenCaptcha{}
		o.Gate = newGate(t, s.client(t), guard.GateOptions{Window: quiet, Threshold: 1})
		g := newGuard(t, o)
		free := begin(t, g)
		if a, v := g.Begin(t.Context(), guard.Request{}); v.Outcome != guard.Unavailable || a.ID != "" {
			t.Errorf("Begin without a captcha = %+v, %+v", a, v)
		}
		if v := g.Register(t.Context(), guard.Request{Attempt: free.ID, Token: "t"}); v.Outcome != guard.Unavailable || v.Check != guard.CheckCaptcha {
			t.Errorf("Register with a token nobody can verify = %+v", v)
		}
		if v := g.Register(t.Context(), guard.Request{Attempt: free.ID}); v.Outcome != guard.Pass {
			t.Errorf("Register without a challenge = %+v", v)
		}
		if fails.count() != 2 {
			t.Errorf("reported %q, want two failures", fails.list)
		}
	})
}

// TestMore adds a check without touching the others.
func TestMore(t *testing.T) {
	t.Parallel()
	var asked trace
	o := only(t, newClock().now)
	o.Check = guard.Limit{Count: 2, Per: time.Minute}
	o.More = []guard.Node{{
		Name: "invitation", Parent: guard.CheckCheckAddress, Tier: guard.Remote, On: guard.CheckPath,
		Checker: asked.says("invitation", guard.Refused, nil),
	}}
	g := newGuard(t, o)
	for _, want := range []string{"invitation", "invitation", guard.CheckCheckAddress} {
		if v := g.Check(t.Context(), guard.Request{}); v.Check != want {
			t.Errorf("Check = %+v, want %s to decide", v, want)
		}
	}
	if len(asked) != 2 {
		t.Errorf("the added check was asked %d times, want 2", len(asked))
	}
	if got := stat(t, g, "invitation").Outcomes[guard.Refused]; got != 2 {
		t.Errorf("%d refusals counted, want 2", got)
	}
}

func TestOutcomeNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for o := range guard.Unavailable + 1 {
		seen[o.String()] = true
	}
	if len(seen) != int(guard.Unavailable)+1 || seen["invalid"] || seen[""] {
		t.Errorf("outcomes are called %v", seen)
	}
	if got := (guard.Unavailable + 1).String(); got != "invalid" {
		t.Errorf("an outcome that is none is called %q", got)
	}
}
