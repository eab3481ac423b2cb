package name

import (
	"errors"
	"fmt"
	"time"
)

// State is where a name stands in its life. The numbers are stored: they must
// never change.
type State int8

// The states. A name that nobody ever owned is Available.
const (
	// Available may be claimed by anybody.
	Available State = 0
	// Claimed has an owner.
	Claimed State = 1
	// Locked has an owner who may not use it.
	Locked State = 2
	// Released had an owner and is nobody's until its cool-down is over.
	Released State = 3
)

// CoolDown is how long a released name stays unavailable unless told
// otherwise: ninety days, so that nobody inherits the mail, the links and the
// good name of an owner who has just gone.
const CoolDown = 90 * 24 * time.Hour

// ErrMove is wrapped by the error of every move that the life of a name does
// not have.
var ErrMove = errors.New("illegal move")

// String is the state as events spell it: CLAIMED. What is no state shows its
// number.
func (s State) String() string {
	switch s {
	case Available:
		return "AVAILABLE"
	case Claimed:
		return "CLAIMED"
	case Locked:
		return "LOCKED"
	case Released:
		return "RELEASED"
	}
	return fmt.Sprintf("State(%d)", int8(s))
}

// CanMove returns nil for the five moves there are, AVAILABLE → CLAIMED →
// LOCKED → RELEASED → AVAILABLE and CLAIMED → RELEASED, and for every other
// pair an error that wraps [ErrMove]. There is no way back from LOCKED to
// CLAIMED, and none that skips the cool-down.
func CanMove(from, to State) error {
	type move struct{ from, to State }
	switch (move{from, to}) {
	case move{Available, Claimed},
		move{Claimed, Locked},
		move{Claimed, Released},
		move{Locked, Released},
		move{Released, Available}:
		return nil
	}
	return fmt.Errorf("%w: a name never goes from %s to %s", ErrMove, from, to)
}
