package shard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Hold says for whom a mobile number is kept: for a user who has it or, for a moment, for one who is about to.
type Hold struct {
	Mobile string
	UserID int64
	Name   string    // under which the user is to be found
	At     time.Time // when the number was kept
}

// HoldTime is how long a number is kept for a user of whom nothing is to be seen. A claim takes a second or fails.
const HoldTime = time.Minute

// ClaimMobile is Claim for a user with a mobile number, which nobody else on any shard may have.
//
// Name and number live on different shards, and no transaction spans two. The number therefore is held first, on a shard of
// its own, and the claim follows, in one transaction as ever. The hold counts for as long as its user lives, so that there
// is nothing to confirm afterwards and nothing to undo when the user is deleted. Whoever finds a hold that is older than
// [HoldTime] asks the shard of its user, where the unique user id decides: either the user row is there, or a dead one is
// put in its place, and the claim it was for can succeed no more.
//
// The number's shard is dealt by its hash among all shards and does not follow the buckets of the names: shards may change
// owners of buckets at will, but to add one calls for moving the holds first.
func (c *Cluster) ClaimMobile(ctx context.Context, claim Claim) (won bool, err error) {
	home := c.members[Bucket(claim.Mobile)*len(c.members)/Buckets]
	if err := c.hold(ctx, home, claim); err != nil {
		return false, err
	}
	won, err = c.Claim(ctx, claim)
	if lost := err == nil && !won; lost || errors.Is(err, ErrMobileTaken) || errors.Is(err, ErrNoConnection) {
		// It is certain that there is no such user. If the number cannot be let go now, the next who wants it will see to that.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = home.store.DropMobile(ctx, claim.Mobile, claim.UserID)
	}
	return won, err
}

// hold keeps the number for the claim, or fails with [ErrMobileTaken].
func (c *Cluster) hold(ctx context.Context, home *member, claim Claim) error {
	mine := Hold{Mobile: claim.Mobile, UserID: claim.UserID, Name: claim.Name, At: claim.At}
	holder, err := home.store.HoldMobile(ctx, mine, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", home.name, err)
	}
	if holder.UserID == mine.UserID {
		return nil
	}
	if claim.At.Sub(holder.At) < HoldTime {
		return ErrMobileTaken
	}
	var alive bool
	err = c.route(ctx, holder.Name, func(m *member) error {
		if alive, err = m.store.Bury(ctx, holder.Name, holder.UserID, claim.At); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if alive {
		return ErrMobileTaken
	}
	if holder, err = home.store.HoldMobile(ctx, mine, holder.UserID); err != nil {
		return fmt.Errorf("%s: %w", home.name, err)
	}
	if holder.UserID != mine.UserID {
		return ErrMobileTaken // somebody else was quicker
	}
	return nil
}

// The statements on mobile numbers that both databases share. An update that changes nothing makes RETURNING tell the row
// that is there, and waits for whoever is writing it.
const (
	holdMobile = `INSERT INTO mobiles AS m (mobile, user_id, username, held_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (mobile) DO UPDATE SET
			user_id = CASE WHEN m.user_id = $5 THEN excluded.user_id ELSE m.user_id END,
			username = CASE WHEN m.user_id = $5 THEN excluded.username ELSE m.username END,
			held_at = CASE WHEN m.user_id = $5 THEN excluded.held_at ELSE m.held_at END
		RETURNING user_id, username, held_at`
	dropMobile = "DELETE FROM mobiles WHERE mobile = $1 AND user_id = $2"
)
