package shard_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// checkMobiles holds, drops and buries on one store.
func checkMobiles(t *testing.T, open opener) {
	s := open(t, "mobiles", 2)
	hold := func(user, dead, want int64) {
		t.Helper()
		h := shard.Hold{Mobile: "+491701", UserID: user, Name: "name" + strconv.FormatInt(user, 10), At: epoch}
		got, err := s.HoldMobile(t.Context(), h, dead)
		h.UserID, h.Name = want, "name"+strconv.FormatInt(want, 10)
		if err != nil || got != h {
			t.Errorf("HoldMobile(%d, %d) = %+v, %v, want %+v", user, dead, got, err, h)
		}
	}
	drop := func(user int64) {
		t.Helper()
		if err := s.DropMobile(t.Context(), "+491701", user); err != nil {
			t.Error(err)
		}
	}
	hold(1, 0, 1)
	hold(1, 0, 1)
	hold(2, 0, 1)
	hold(2, 3, 1)
	drop(2)
	hold(2, 0, 1)
	hold(2, 1, 2)
	drop(2)
	hold(3, 0, 3)

	bury := func(user int64, want bool) {
		t.Helper()
		if alive, err := s.Bury(t.Context(), "love", user, epoch); alive != want || err != nil {
			t.Errorf("Bury(%d) = %t, %v, want %t", user, alive, err, want)
		}
	}
	mustClaim(t, s, shard.Row{Name: "love", UserID: 1, CreatedAt: epoch})
	bury(1, true)
	mustMove(t, s, shard.Move{Name: "love", From: name.Claimed, To: name.Released, UserID: 1, At: epoch})
	bury(1, false)
	bury(2, false)
	bury(2, false)
	if won, err := s.Claim(t.Context(), shard.Claim{Name: "baby", UserID: 2, At: epoch}); won || err == nil {
		t.Errorf("Claim of a user who was buried = %t, %v, want an error", won, err)
	}
}

// TestClaimMobile wants one number under many names, on four shards.
func TestClaimMobile(t *testing.T) {
	t.Parallel()
	c := embedded(t, 4)
	const mobile, callers = "+491701", 24
	var next atomic.Int64
	claim := func(at time.Time) (n string, user int64, err error) {
		user = next.Add(1)
		n = "name" + strconv.FormatInt(user, 10)
		won, err := c.ClaimMobile(t.Context(), shard.Claim{Name: n, UserID: user, At: at, Mobile: mobile})
		if err == nil && !won {
			t.Errorf("ClaimMobile(%s) = false, the name was free", n)
		}
		return n, user, err
	}
	type owner struct {
		name string
		user int64
	}
	// race lets all callers want the number at once and answers who has got it.
	race := func(at time.Time) owner {
		t.Helper()
		var mu sync.Mutex
		var owners []owner
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				n, user, err := claim(at)
				if err == nil {
					mu.Lock()
					owners = append(owners, owner{n, user})
					mu.Unlock()
				} else if !errors.Is(err, shard.ErrMobileTaken) {
					t.Errorf("ClaimMobile: %v", err)
				}
			})
		}
		all.Wait()
		if len(owners) != 1 {
			t.Fatalf("%v have the number, want one", owners)
		}
		return owners[0]
	}
	first := race(epoch)
	for _, at := range []time.Time{epoch, epoch.Add(time.Hour)} {
		if n, _, err := claim(at); !errors.Is(err, shard.ErrMobileTaken) {
			t.Errorf("ClaimMobile(%s) with a living user's number: %v", n, err)
		}
	}
	release := shard.Move{Name: first.name, From: name.Claimed, To: name.Released, UserID: first.user, At: epoch.Add(2 * time.Hour)}
	if moved, err := c.Move(t.Context(), release); !moved || err != nil {
		t.Fatalf("Move = %t, %v", moved, err)
	}
	second := race(epoch.Add(3 * time.Hour))

	// A claim for a name that is taken lets the number go at once.
	lost := shard.Claim{Name: second.name, UserID: 1000, At: epoch.Add(3 * time.Hour), Mobile: "+491702"}
	if won, err := c.ClaimMobile(t.Context(), lost); won || err != nil {
		t.Errorf("ClaimMobile of a name that is taken = %t, %v", won, err)
	}
	lost.Name, lost.UserID = "other", 1001
	if won, err := c.ClaimMobile(t.Context(), lost); !won || err != nil {
		t.Errorf("ClaimMobile of the number that was let go = %t, %v", won, err)
	}
}

// TestClaimMobileAbandoned leaves a number held for a user who never came, as a process does that dies between the two steps.
func TestClaimMobileAbandoned(t *testing.T) {
	t.Parallel()
	c := embedded(t, 4)
	dead := shard.Hold{Mobile: "+491701", UserID: 1, Name: "never", At: epoch}
	home := c.Store(shard.Bucket(dead.Mobile) * c.Len() / shard.Buckets)
	if _, err := home.HoldMobile(t.Context(), dead, 0); err != nil {
		t.Fatal(err)
	}
	claim := shard.Claim{Name: "love", UserID: 2, At: epoch.Add(shard.HoldTime - 1), Mobile: dead.Mobile}
	if won, err := c.ClaimMobile(t.Context(), claim); won || !errors.Is(err, shard.ErrMobileTaken) {
		t.Errorf("ClaimMobile within the time of a hold = %t, %v", won, err)
	}
	claim.At = epoch.Add(shard.HoldTime)
	if won, err := c.ClaimMobile(t.Context(), claim); !won || err != nil {
		t.Errorf("ClaimMobile after the time of a hold = %t, %v", won, err)
	}
	// The one who was given up comes after all.
	late := shard.Claim{Name: dead.Name, UserID: dead.UserID, At: dead.At, Mobile: dead.Mobile}
	if won, err := c.Claim(t.Context(), late); won || err == nil {
		t.Errorf("Claim of a user who was given up = %t, %v, want an error", won, err)
	}
	if _, found, err := c.Lookup(t.Context(), dead.Name); found || err != nil {
		t.Errorf("Lookup = %t, %v, want no row", found, err)
	}
}
