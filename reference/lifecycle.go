package reference

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// What a change of a name's state can fail with, beside what is wrong with the
// name and [name.ErrMove].
var (
	ErrNotFound = errors.New("name has no owner")
	ErrNotOwner = errors.New("name belongs to somebody else")
)

// Release takes the name from its owner: the account is deleted, and the name
// stays taken for everybody until its cool-down is over. Errors are those of
// package name, [ErrNotFound], [ErrNotOwner], and [ErrUnavailable]; to repeat a
// call whose outcome stayed open does no harm. No cache has to hear of it, for
// to all of them the name is as taken as before.
func (s *Service) Release(ctx context.Context, raw string, userID int64) error {
	return s.move(ctx, raw, userID, name.Released)
}

// Lock forbids the owner the use of the name, for good: a name that is locked
// can only be released. Errors are those of Release, and [name.ErrMove] for a
// name that is released.
func (s *Service) Lock(ctx context.Context, raw string, userID int64) error {
	return s.move(ctx, raw, userID, name.Locked)
}

// moveAttempts is how often a move looks at a name again that somebody else
// moved in between. An owner's name can move twice at most.
const moveAttempts = 3

func (s *Service) move(ctx context.Context, raw string, userID int64, to name.State) error {
	n, err := s.registrable(raw)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backEndTimeout)
	defer cancel()
	for range moveAttempts {
		row, found, err := s.Shards.Lookup(ctx, n)
		switch {
		case err != nil:
			return s.shardFailed(n, err)
		case !found:
			return ErrNotFound
		case row.UserID != userID:
			return ErrNotOwner
		case row.State == to:
			return nil
		}
		if err := name.CanMove(row.State, to); err != nil {
			return err
		}
		now := time.Now()
		moved, err := s.Shards.Move(ctx, shard.Move{Name: n, From: row.State, To: to, UserID: userID, At: now, RecyclableAt: s.recyclableAt(to, now)})
		if err != nil {
			return s.shardFailed(n, err)
		}
		if moved {
			s.Relay.Wake(s.Shards.Owner(n))
			return nil
		}
	}
	return fmt.Errorf("%w: the name is being moved", ErrUnavailable)
}

// recyclableAt is the end of the cool-down that begins now.
func (s *Service) recyclableAt(to name.State, now time.Time) time.Time {
	if to != name.Released || s.CoolDown == 0 {
		return time.Time{} // the shard's default
	}
	return now.Add(s.CoolDown)
}

// freed counts the names that became available through this instance, and those
// of which the caches were told.
type freed struct{ names, told atomic.Uint64 }

// Freed makes the caches of every instance forget a name that has just become
// available. The filter cannot forget: until it is rebuilt, it says "maybe", which
// costs a look-up.
func (s *Service) Freed(ctx context.Context, n string) {
	s.freed.names.Add(1)
	s.Relay.Wake(s.Shards.Owner(n))
	if s.faults.keepStale.Load() {
		return
	}
	err := s.Redis.Released(ctx, n, time.Now())
	s.redisFailed(err)
	s.Local.Forget(n)
	s.flights.Forget(n)
	if err == nil {
		s.freed.told.Add(1)
	}
}

// FreedNames returns how many names became available through this instance, and
// of how many of them Redis was told at once.
func (s *Service) FreedNames() (names, told uint64) { return s.freed.names.Load(), s.freed.told.Load() }
