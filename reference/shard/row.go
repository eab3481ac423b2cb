package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/reference/name"
)

// Row is one name that is not available.
type Row struct {
	// Name is the canonical username, the key.
	Name string
	// UserID is the owner's id, of a released name its last owner's.
	UserID int64
	// CreatedAt is when the owner got the name; stores keep microseconds and answer in UTC.
	CreatedAt time.Time
	// State is Claimed, Locked or Released. Available, the zero value, counts as Claimed when a row is written: an available
	// name has no row.
	State name.State
	// RecyclableAt is the end of the cool-down of a released name; zero in every other state.
	RecyclableAt time.Time
}

// available says whether the row is that of a released name whose cool-down is over.
func (r Row) available(now time.Time) bool {
	return r.State == name.Released && !now.Before(r.RecyclableAt)
}

// stored is the state that is written for the row, and the end of its cool-down or nil.
func (r Row) stored() (name.State, *time.Time) {
	switch r.State {
	case name.Released:
		return r.State, &r.RecyclableAt
	case name.Available:
		return name.Claimed, nil
	case name.Claimed, name.Locked:
	}
	return r.State, nil
}

// ErrMobileTaken says that the mobile number of a claim belongs to somebody else.
var ErrMobileTaken = errors.New("mobile number is taken")

// Claim asks for a name.
type Claim struct {
	Name   string
	UserID int64     // of the user who comes into being with the name
	At     time.Time // of the claim; a cool-down that ends then or earlier is over
	Mobile string    // the user's mobile number; empty for none
}

// Move asks for a change of a name's state.
type Move struct {
	Name     string
	From, To name.State
	// UserID is the owner. The move happens only while the name belongs to this user, which, as ids never repeat, makes a
	// late move of an earlier owner's harmless. It may be 0 for a move to AVAILABLE alone, which is nobody's.
	UserID int64
	At     time.Time
	// RecyclableAt is when the cool-down ends, for a move to RELEASED; zero means [name.CoolDown] after At.
	RecyclableAt time.Time
}

// check completes the move, or says why there can be none.
func (m Move) check() (Move, error) {
	if err := name.CanMove(m.From, m.To); err != nil {
		return m, err
	}
	switch {
	case m.From == name.Available:
		return m, fmt.Errorf("%w: a name is claimed together with its user, not moved", name.ErrMove)
	case m.UserID == 0 && m.To != name.Available:
		return m, fmt.Errorf("%w: it is not said whose name is to be moved", name.ErrMove)
	case m.To == name.Released && m.RecyclableAt.IsZero():
		m.RecyclableAt = m.At.Add(name.CoolDown)
	case m.To == name.Released && m.RecyclableAt.Before(m.At):
		return m, fmt.Errorf("%w: the cool-down ends before it begins", name.ErrMove)
	}
	return m, nil
}

// Event says that a name has moved to a state.
type Event struct {
	// ID is unique and increasing within the shard.
	ID int64
	// Shard is the shard's name where the event comes from a [Cluster], else empty.
	Shard string
	// Type is USERNAME_ and the state: USERNAME_CLAIMED, USERNAME_LOCKED, USERNAME_RELEASED or USERNAME_AVAILABLE.
	Type string
	// Name is the name that moved.
	Name string
	// UserID is its owner; of a name that is released or available, the last.
	UserID int64
	// At is when it moved, by the clock of the one who moved it.
	At time.Time
}

// eventType is the type of the event of a move to the state.
func eventType(to name.State) string { return "USERNAME_" + to.String() }
