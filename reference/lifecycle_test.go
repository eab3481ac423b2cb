package reference_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/name"
)

// TestLife leads a name through the service's methods, each tried in every
// state, by its owner and by somebody else.
func TestLife(t *testing.T) {
	t.Parallel()
	s := start(t, local.Options{Shards: 2, Names: 10}).Service
	r, err := s.Register(t.Context(), "Wanted")
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s = %v, want %v", what, err, want)
		}
	}
	state := func(want name.State) {
		t.Helper()
		row, found, err := s.Shards.Lookup(t.Context(), "wanted")
		if err != nil || !found || row.State != want || row.UserID != r.UserID {
			t.Errorf("row = %+v, %t, %v, want it %s", row, found, err, want)
		}
		if want == name.Released && (row.RecyclableAt.Before(time.Now().Add(name.CoolDown-time.Minute)) || row.RecyclableAt.After(time.Now().Add(name.CoolDown))) {
			t.Errorf("the cool-down ends at %v, want ninety days from now", row.RecyclableAt)
		}
	}
	others := func() {
		t.Helper()
		f("Release by another", s.Release(t.Context(), "wanted", r.UserID+1), reference.ErrNotOwner)
		f("Lock by another", s.Lock(t.Context(), "wanted", r.UserID+1), reference.ErrNotOwner)
		f("Lock of nobody's", s.Lock(t.Context(), "nobodys", r.UserID), reference.ErrNotFound)
		f("Release of nobody's", s.Release(t.Context(), "nobodys", r.UserID), reference.ErrNotFound)
		f("Release of no name", s.Release(t.Context(), "a b", r.UserID), name.ErrCharacter)
		if _, err := s.Register(t.Context(), "wanted"); !errors.Is(err, reference.ErrTaken) {
			t.Errorf("Register = %v, want %v", err, reference.ErrTaken)
		}
		if a, err := s.Check(t.Context(), "wanted"); err != nil || !a.Taken {
			t.Errorf("Check = %+v, %v, want taken", a, err)
		}
	}
	others()
	f("Lock", s.Lock(t.Context(), "wanted", r.UserID), nil)
	f("Lock again", s.Lock(t.Context(), "WANTED", r.UserID), nil)
	state(name.Locked)
	others()
	f("Release", s.Release(t.Context(), "ｗａｎｔｅｄ", r.UserID), nil)
	f("Release again", s.Release(t.Context(), "wanted", r.UserID), nil)
	state(name.Released)
	others()
	f("Lock of what is released", s.Lock(t.Context(), "wanted", r.UserID), name.ErrMove)
	state(name.Released)
}

// TestMovesRace lets an owner's calls race: whatever the order, the name ends
// released.
func TestMovesRace(t *testing.T) {
	t.Parallel()
	s := start(t, local.Options{Shards: 1, Names: 10}).Service
	r, err := s.Register(t.Context(), "wanted")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if i%2 == 0 {
				if err := s.Lock(t.Context(), "wanted", r.UserID); err != nil && !errors.Is(err, name.ErrMove) {
					t.Errorf("Lock = %v", err)
				}
			} else if err := s.Release(t.Context(), "wanted", r.UserID); err != nil {
				t.Errorf("Release = %v", err)
			}
		})
	}
	all.Wait()
	if row, found, err := s.Shards.Lookup(t.Context(), "wanted"); err != nil || !found || row.State != name.Released || row.UserID != r.UserID {
		t.Errorf("row = %+v, %t, %v, want it released", row, found, err)
	}
}
