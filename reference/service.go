// Package reference is the checker: a username check and sign-up service built
// as the registration path that the diagnosis agent is made for. Its folders
// are its layers, in the order a request meets them: name, bloom, cache, shard,
// event; then id (user ids), api (HTTP, metrics, the diagnostic contract),
// fault, load and local. The agent never imports it: it sees the checker only through the wire.
package reference

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/shard"
	"github.com/regpath/diagnose/reference/traffic"
)

// backEndTimeout bounds what one check or registration asks of Redis and the
// shard together. It is not the caller's deadline: several callers may share
// the answer, and a registration once begun is brought to its end.
const backEndTimeout = time.Second

// Service answers whether a name is free, and gives names to users. It is safe
// for concurrent use.
type Service struct {
	Layers

	flights     singleflight.Group
	registering atomic.Int64
	degraded    []chan struct{} // bounds the checks that reach a shard because Redis failed
	writeOnRead atomic.Bool
	faults      faults
	freed       freed
	latest      latest
	timing      timing
	lookups     lookups
	traffic     *traffic.Watch
}

// Answer is the answer to a check. Free is advice: only a registration decides.
type Answer struct {
	Name  string // canonical
	Taken bool
	By    Layer // the layer that knew
}

// Registration is a name with its new owner.
type Registration struct {
	Name   string // canonical
	UserID int64
}

// Check says whether the name may be registered. The layers are asked from the
// cheapest to the dearest, and the first that knows answers; "taken" always
// comes from a marker or a row, never from the filter. Errors are those of
// package name, and ErrUnavailable.
func (s *Service) Check(ctx context.Context, raw string) (Answer, error) {
	n, err := s.registrable(raw)
	if err != nil {
		return Answer{}, err
	}
	maybe := s.Filter.Test(n) || s.faults.skipFilter.Load()
	if s.writeOnRead.Load() { // the classic mistake; see fault write-on-read
		s.Filter.Add(n, bloom.Query)
	}
	if !maybe {
		return Answer{Name: n, By: Bloom}, nil
	}
	if taken, known := s.Local.Get(n); known {
		return Answer{Name: n, Taken: taken, By: Local}, nil
	}
	// One asks for all who wait for the same name, and no longer than
	// backEndTimeout, whoever of them goes away meanwhile.
	v, err, _ := s.share(n, func() (any, error) { return s.ask(context.WithoutCancel(ctx), n) })
	a, _ := v.(Answer)
	return a, err
}

// ask asks Redis and, when Redis does not know, the shard. Without Redis the
// shard is asked too, but by few at a time: a broken cache must not break the
// database.
func (s *Service) ask(ctx context.Context, n string) (Answer, error) {
	deadline := time.Now().Add(backEndTimeout)
	ticket := s.Local.Begin(n)
	start := time.Now()
	known, lease, redisErr := s.askRedis(ctx, n) // has a timeout of its own, far shorter
	s.timing.since(CheckRedis, start)
	switch known {
	case cache.Taken:
		s.Local.Fill(n, ticket, true)
		return Answer{Name: n, Taken: true, By: Redis}, nil
	case cache.Free:
		s.Local.Fill(n, ticket, false)
		return Answer{Name: n, By: Redis}, nil
	case cache.Miss: // the shard knows
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if redisErr != nil {
		s.redisFailed(redisErr)
		leave, err := s.enterDegraded(ctx, n, redisErr)
		if err != nil {
			return Answer{}, err
		}
		defer leave()
	}
	start = time.Now()
	s.traffic.LookedUp(n, start)
	_, taken, err := s.Shards.Lookup(ctx, n)
	s.timing.since(CheckShard, start)
	if err != nil {
		return Answer{}, s.shardFailed(n, err)
	}
	s.lookups.count(taken)
	if !taken && s.faults.forgetFree.Load() {
		return Answer{Name: n, By: Shard}, nil
	}
	s.Local.Fill(n, ticket, taken)
	if redisErr == nil {
		_, err = s.Redis.Fill(ctx, n, lease, taken)
		s.redisFailed(err)
	}
	return Answer{Name: n, Taken: taken, By: Shard}, nil
}

// askRedis asks for the name and, when Redis does not know, for the right to
// enter what the shard will say.
func (s *Service) askRedis(ctx context.Context, n string) (known cache.Answer, lease cache.Lease, err error) {
	if known, err = s.Redis.Lookup(ctx, n); err == nil && known == cache.Miss {
		lease, err = s.Redis.Lease(ctx, n)
	}
	return known, lease, err
}

// Register gives the name to a new user. The shard's unique index decides and
// nothing is asked before it; whatever follows the commit cannot undo it.
// Errors are those of package name, ErrTaken, and ErrUnavailable, after which
// the outcome is open: a repetition is told.
func (s *Service) Register(ctx context.Context, raw string) (Registration, error) {
	return s.RegisterMobile(ctx, raw, "")
}

// RegisterMobile is Register for a user with a mobile number, which nobody else
// may have; empty is none. Its errors are ErrMobile and ErrMobileTaken, too.
func (s *Service) RegisterMobile(ctx context.Context, raw, mobile string) (Registration, error) {
	n, err := s.registrable(raw)
	if err != nil {
		return Registration{}, err
	}
	if !validMobile(mobile) {
		return Registration{}, ErrMobile
	}
	s.registering.Add(1)
	defer s.registering.Add(-1)
	start := time.Now()
	id, err := s.IDs.Next(ctx)
	s.timing.since(RegisterID, start)
	if err != nil {
		s.Failed(Failure{Layer: API, Target: "ids", Err: err})
		return Registration{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backEndTimeout)
	defer cancel()
	claim := shard.Claim{Name: n, UserID: id, At: time.Now(), Mobile: mobile}
	if s.faults.trustFree.Load() && s.acknowledged(ctx, claim) {
		return Registration{Name: n, UserID: id}, nil
	}
	start = time.Now()
	won, err := s.claim(ctx, claim)
	s.timing.since(RegisterShard, start)
	switch {
	case errors.Is(err, ErrMobileTaken):
		return Registration{}, ErrMobileTaken
	case err != nil:
		return Registration{}, s.shardFailed(n, err)
	case !won:
		s.Filter.Know(n) // it has an owner, whose own instance may not have told the filter yet
		s.remember(n, s.Redis.MarkTaken(ctx, n))
		return Registration{}, ErrTaken
	}
	s.Filter.CountRegistration()
	s.Filter.Add(n, bloom.Register) // the one write channel
	s.latest.add(claim)
	start = time.Now()
	if s.faults.staleFree.Load() {
		s.redisFailed(s.Redis.LeaveFree(ctx, n))
	} else {
		s.remember(n, s.Redis.Claimed(ctx, n))
	}
	s.timing.since(RegisterRedis, start)
	s.Relay.Wake(s.Shards.Owner(n)) // everything else follows the event
	if s.faults.inline.Load() {
		s.followInline(ctx, claim)
	}
	return Registration{Name: n, UserID: id}, nil
}

// Registering is how many registrations are under way.
func (s *Service) Registering() int { return int(s.registering.Load()) }

// claim claims the name. After an error that leaves the outcome open it looks
// who won. If nobody is seen to have won, the filter gets the name all the same,
// for the row may yet appear: a needless "maybe" costs a look-up, a missing one
// is a lie.
func (s *Service) claim(ctx context.Context, c shard.Claim) (won bool, err error) {
	if c.Mobile == "" {
		won, err = s.Shards.Claim(ctx, c)
	} else {
		won, err = s.Shards.ClaimMobile(ctx, c)
	}
	if err == nil || errors.Is(err, shard.ErrNoConnection) || errors.Is(err, ErrMobileTaken) {
		return won, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backEndTimeout)
	defer cancel()
	if found, ok, lookErr := s.Shards.Lookup(ctx, c.Name); ok && lookErr == nil {
		return found.UserID == c.UserID, nil
	}
	s.Filter.Add(c.Name, bloom.Register)
	return false, err
}

// remember notes that a name is taken, after Redis was told, so that the
// registrant's own next check knows: it finds the answer here, or begins a
// look-up of its own, for no look-up that is under way may be shared any more.
func (s *Service) remember(n string, redisErr error) {
	s.redisFailed(redisErr)
	s.Local.SetTaken(n)
	s.flights.Forget(n)
}

func (s *Service) enterDegraded(ctx context.Context, n string, cause error) (leave func(), err error) {
	slots := s.degraded[s.Shards.Owner(n)]
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, &DownError{What: "redis does not answer and " + s.shardOf(n) + " is busy", Err: cause}
	}
}

func (s *Service) shardOf(n string) string { return "shard" + strconv.Itoa(s.Shards.Owner(n)) }

// validMobile wants E.164 as it is written, or nothing.
func validMobile(m string) bool {
	digits, plus := strings.CutPrefix(m, "+")
	return m == "" || plus && len(digits) >= 8 && len(digits) <= 15 && strings.Trim(digits, "0123456789") == ""
}

func (s *Service) redisFailed(err error) {
	if err != nil {
		s.Failed(Failure{Layer: Redis, Target: s.Redis.Options().Address, Err: err})
	}
}

func (s *Service) shardFailed(n string, err error) error {
	s.Failed(Failure{Layer: Shard, Target: s.shardOf(n), Err: err})
	return &DownError{What: s.shardOf(n) + " does not answer", Err: err}
}
