package reference

import (
	"context"
	"errors"
	"fmt"
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
	n, err := name.Registrable(raw)
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
		moved, err := s.Shards.Move(ctx, shard.Move{Name: n, From: row.State, To: to, UserID: userID, At: time.Now()})
		if err != nil {
			return s.shardFailed(n, err)
		}
		if moved {
			return nil
		}
	}
	return fmt.Errorf("%w: the name is being moved", ErrUnavailable)
}
