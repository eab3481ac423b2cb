package shard_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// The states, with the events that lead to them.
var stateOf = map[string]name.State{
	"USERNAME_AVAILABLE": name.Available, "USERNAME_CLAIMED": name.Claimed, "USERNAME_LOCKED": name.Locked, "USERNAME_RELEASED": name.Released,
}

func mustMove(t *testing.T, s shard.Store, m shard.Move) bool {
	t.Helper()
	moved, err := s.Move(t.Context(), m)
	if err != nil {
		t.Fatalf("Move(%+v): %v", m, err)
	}
	return moved
}

// outbox reads all events that are not published and holds them to the order that Store promises.
func outbox(t *testing.T, s shard.Store) []shard.Event {
	t.Helper()
	events, err := s.Outbox(t.Context(), 100_000)
	if err != nil {
		t.Fatalf("Outbox: %v", err)
	}
	for i := 1; i < len(events); i++ {
		if events[i].ID <= events[i-1].ID {
			t.Errorf("event %d comes after event %d", events[i].ID, events[i-1].ID)
		}
	}
	return events
}

// legal walks the events of every name from AVAILABLE on and answers where each ended, and with whom.
func legal(t *testing.T, events []shard.Event) map[string]shard.Row {
	t.Helper()
	now := map[string]shard.Row{}
	for _, e := range events {
		to, known := stateOf[e.Type]
		if err := name.CanMove(now[e.Name].State, to); err != nil || !known {
			t.Errorf("event %d, %s of %s: %v", e.ID, e.Type, e.Name, err)
		}
		if owner := now[e.Name].UserID; to != name.Claimed && e.UserID != owner {
			t.Errorf("event %d, %s of %s, tells user %d, the name was %d's", e.ID, e.Type, e.Name, e.UserID, owner)
		}
		now[e.Name] = shard.Row{UserID: e.UserID, State: to}
	}
	return now
}

// checkLife leads one name through its whole life, twice.
func checkLife(t *testing.T, open opener) {
	s := open(t, "life", 2)
	long := time.Now().Add(-100 * 24 * time.Hour).Truncate(time.Microsecond).UTC()
	row := func() string {
		t.Helper()
		r, found := mustLookup(t, s, "love")
		if !found {
			return "none"
		}
		return fmt.Sprintf("%s of %d until %s", r.State, r.UserID, strings.TrimSuffix(r.RecyclableAt.Sub(long).String(), "0m0s"))
	}
	want := func(want string) {
		t.Helper()
		if got := row(); !strings.HasPrefix(got, want) {
			t.Errorf("row is %s, want %s", got, want)
		}
	}
	move := func(moved bool, m shard.Move) {
		t.Helper()
		m.Name = "love"
		if got := mustMove(t, s, m); got != moved {
			t.Errorf("Move(%+v) = %t, want %t", m, got, moved)
		}
	}
	mustClaim(t, s, shard.Row{Name: "love", UserID: 1, CreatedAt: long})
	want("CLAIMED of 1")
	move(false, shard.Move{From: name.Claimed, To: name.Locked, UserID: 2, At: long})
	move(false, shard.Move{From: name.Locked, To: name.Released, UserID: 1, At: long})
	move(true, shard.Move{From: name.Claimed, To: name.Locked, UserID: 1, At: long})
	move(false, shard.Move{From: name.Claimed, To: name.Locked, UserID: 1, At: long})
	want("LOCKED of 1")
	// The cool-down runs until the hour after next.
	move(true, shard.Move{From: name.Locked, To: name.Released, UserID: 1, At: long, RecyclableAt: long.Add(101 * 24 * time.Hour)})
	want("RELEASED of 1 until 2424h")
	if mustClaim(t, s, shard.Row{Name: "love", UserID: 3, CreatedAt: long.Add(100 * 24 * time.Hour)}) {
		t.Error("a name was claimed within its cool-down")
	}
	move(false, shard.Move{From: name.Released, To: name.Available, At: long.Add(101*24*time.Hour - time.Microsecond)})
	move(false, shard.Move{From: name.Released, To: name.Available, UserID: 2, At: long.Add(101 * 24 * time.Hour)})
	move(true, shard.Move{From: name.Released, To: name.Available, UserID: 1, At: long.Add(101 * 24 * time.Hour)})
	want("none")
	move(false, shard.Move{From: name.Released, To: name.Available, At: time.Now()})

	// The second life ends with a cool-down that nobody asked for, ninety days, and a claim that takes the name over.
	mustClaim(t, s, shard.Row{Name: "love", UserID: 4, CreatedAt: long})
	move(true, shard.Move{From: name.Claimed, To: name.Released, UserID: 4, At: long})
	want("none") // it is over by now
	if mustClaim(t, s, shard.Row{Name: "love", UserID: 5, CreatedAt: long.Add(90*24*time.Hour - time.Microsecond)}) {
		t.Error("a name was claimed a microsecond before the end of its cool-down")
	}
	if !mustClaim(t, s, shard.Row{Name: "love", UserID: 6, CreatedAt: long.Add(90 * 24 * time.Hour)}) {
		t.Error("a name was not given away when its cool-down was over")
	}
	want("CLAIMED of 6")
	move(false, shard.Move{From: name.Claimed, To: name.Released, UserID: 4, At: long}) // the first owner comes late

	var story []string
	events := outbox(t, s)
	legal(t, events)
	for _, e := range events {
		story = append(story, fmt.Sprintf("%s %d", e.Type[len("USERNAME_"):], e.UserID))
	}
	told := "CLAIMED 1, LOCKED 1, RELEASED 1, AVAILABLE 1, CLAIMED 4, RELEASED 4, AVAILABLE 4, CLAIMED 6"
	if got := strings.Join(story, ", "); got != told {
		t.Errorf("the events are %s, want %s", got, told)
	}
	if e := events[0]; e.Name != "love" || !e.At.Equal(long) || e.At.Location() != time.UTC {
		t.Errorf("the first event is %+v", e)
	}
}

// checkIllegal asks for every move there is not, of a name in every state.
func checkIllegal(t *testing.T, open opener) {
	s := open(t, "illegal", 1)
	states := []name.State{name.Available, name.Claimed, name.Locked, name.Released, -1, 4}
	f := func(m shard.Move) {
		t.Helper()
		if moved, err := s.Move(t.Context(), m); moved || !errors.Is(err, name.ErrMove) {
			t.Errorf("Move(%+v) = %t, %v, want %v", m, moved, err, name.ErrMove)
		}
	}
	mustClaim(t, s, shard.Row{Name: "love", UserID: 1, CreatedAt: epoch})
	for _, next := range []name.State{name.Claimed, name.Locked, name.Released} {
		for _, from := range states {
			for _, to := range states {
				if name.CanMove(from, to) != nil || from == name.Available {
					f(shard.Move{Name: "love", From: from, To: to, UserID: 1, At: epoch})
				}
			}
		}
		f(shard.Move{Name: "love", From: name.Claimed, To: name.Locked, At: epoch})
		f(shard.Move{Name: "love", From: name.Claimed, To: name.Released, At: epoch})
		f(shard.Move{Name: "love", From: name.Claimed, To: name.Released, UserID: 1, At: epoch, RecyclableAt: epoch.Add(-1)})
		if row, _ := mustLookup(t, s, "love"); row.State != next {
			t.Errorf("the name is %s, want it still %s", row.State, next)
		}
		if next != name.Released {
			mustMove(t, s, shard.Move{Name: "love", From: next, To: next + 1, UserID: 1, At: epoch})
		}
	}
	if got := len(outbox(t, s)); got != 3 {
		t.Errorf("%d events, want 3", got)
	}
}

// checkWalk makes thousands of random claims and moves, most of them out of place, and compares with a model.
func checkWalk(t *testing.T, open opener) {
	s := open(t, "walk", 2)
	random := rand.New(rand.NewPCG(3, 4))
	states := []name.State{name.Available, name.Claimed, name.Locked, name.Released}
	model := map[string]shard.Row{}
	now, user := epoch, int64(0)
	done := 0
	for range 1500 {
		now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
		n := "name" + strconv.Itoa(random.IntN(4))
		was := model[n]
		over := was.State == name.Released && !now.Before(was.RecyclableAt)
		if random.IntN(4) == 0 {
			user++
			won := mustClaim(t, s, shard.Row{Name: n, UserID: user, CreatedAt: now})
			if want := was.State == name.Available || over; won != want {
				t.Fatalf("Claim(%s) of %+v at %v = %t, want %t", n, was, now, won, want)
			}
			if won {
				model[n] = shard.Row{UserID: user, State: name.Claimed}
				done++
			}
			continue
		}
		m := shard.Move{Name: n, From: states[random.IntN(4)], To: states[random.IntN(4)], UserID: max(was.UserID-int64(random.IntN(4)/3), 1), At: now}
		if m.To == name.Released {
			m.RecyclableAt = now.Add(time.Second)
		}
		moved, err := s.Move(t.Context(), m)
		possible := name.CanMove(m.From, m.To) == nil && m.From != name.Available
		if possible != (err == nil) {
			t.Fatalf("Move(%+v): %v", m, err)
		}
		want := possible && m.From == was.State && m.UserID == was.UserID && (m.To != name.Available || over)
		if moved != want {
			t.Fatalf("Move(%+v) of %+v = %t, want %t", m, was, moved, want)
		}
		if moved {
			model[n] = shard.Row{UserID: was.UserID, State: m.To, RecyclableAt: m.RecyclableAt}
			done++
		}
	}
	events := outbox(t, s)
	if len(events) < done || done < 100 {
		t.Errorf("%d moves made %d events, want one each and 100 or more", done, len(events))
	}
	for n, told := range legal(t, events) {
		if want := model[n]; told.State != want.State || told.UserID != want.UserID {
			t.Errorf("the events leave %s at %+v, the model at %+v", n, told, want)
		}
	}
}

// checkContest lets many callers claim, lock, release and free the same names at once. Whatever each of them gets, the
// events of every name are a life, and the rows are where it ends.
func checkContest(t *testing.T, open opener) {
	s := open(t, "contest", 4)
	var all sync.WaitGroup
	for caller := range int64(6) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(5, uint64(caller)))
			for i := range int64(60) {
				n, at := "name"+strconv.Itoa(random.IntN(2)), epoch.Add(time.Duration(i)*time.Second)
				row, _ := mustLookup(t, s, n)
				m := shard.Move{Name: n, From: row.State, To: name.Released, UserID: row.UserID, At: at, RecyclableAt: at}
				switch {
				case row.State == name.Available || random.IntN(3) == 0:
					mustClaim(t, s, shard.Row{Name: n, UserID: caller*1000 + i + 1, CreatedAt: at.Add(time.Hour)})
					continue
				case row.State == name.Claimed && random.IntN(2) == 0:
					m.To, m.RecyclableAt = name.Locked, time.Time{}
				}
				mustMove(t, s, m)
			}
		})
	}
	all.Wait()
	events := outbox(t, s)
	claims := 0
	for _, e := range events {
		if e.Type == "USERNAME_CLAIMED" {
			claims++
		}
	}
	if claims < 10 {
		t.Errorf("only %d claims were won: the test tests nothing", claims)
	}
	for n, told := range legal(t, events) {
		row, found := mustLookup(t, s, n)
		if gone := told.State == name.Released || told.State == name.Available; gone == found || found && (row.State != told.State || row.UserID != told.UserID) {
			t.Errorf("%s is %+v, %t, its events end with %+v", n, row, found, told)
		}
	}
}

func checkOutbox(t *testing.T, open opener) {
	s := open(t, "outbox", 2)
	for i := range 30 {
		mustClaim(t, s, shard.Row{Name: "user" + strconv.Itoa(i), UserID: int64(i + 1), CreatedAt: epoch})
	}
	mustClaim(t, s, shard.Row{Name: "user7", UserID: 100, CreatedAt: epoch}) // lost: no event
	if _, err := s.Load(t.Context(), rows(40)); err != nil {                 // loaded: no event
		t.Fatal(err)
	}
	first, err := s.Outbox(t.Context(), 10)
	if err != nil || len(first) != 10 || first[0].Name != "user0" || first[9].Name != "user9" {
		t.Fatalf("Outbox(10) = %v, %v, want user0 to user9", first, err)
	}
	var ids []int64
	for _, e := range first[1:] {
		ids = append(ids, e.ID)
	}
	started := time.Now().Add(-time.Minute)
	for range 2 {
		if err := s.MarkPublished(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.MarkPublished(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if got := outbox(t, s); len(got) != 21 || got[0] != first[0] || got[1].Name != "user10" {
		t.Errorf("after nine were published Outbox has %d, the first is %+v", len(got), got[0])
	}
	count := func(what string, want int64) func(int64, error) {
		return func(got int64, err error) {
			t.Helper()
			if got != want || err != nil {
				t.Errorf("%s = %d, %v, want %d", what, got, err, want)
			}
		}
	}
	count("Republish(future)", 0)(s.Republish(t.Context(), time.Now().Add(time.Hour)))
	count("Republish", 9)(s.Republish(t.Context(), started))
	if got := outbox(t, s); len(got) != 30 || !slices.Equal(got[:10], first) {
		t.Errorf("after Republish Outbox has %d", len(got))
	}
	if err := s.MarkPublished(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	count("Purge(past)", 0)(s.Purge(t.Context(), started, 100))
	count("Purge(4)", 4)(s.Purge(t.Context(), time.Now().Add(time.Hour), 4))
	count("Purge", 5)(s.Purge(t.Context(), time.Now().Add(time.Hour), 100))
	if got := outbox(t, s); len(got) != 21 {
		t.Errorf("after Purge Outbox has %d, want the 21 that are not published", len(got))
	}
	if got, err := s.Outbox(t.Context(), 0); len(got) != 0 || err != nil {
		t.Errorf("Outbox(0) = %v, %v", got, err)
	}
}

func checkRecyclable(t *testing.T, open opener) {
	s := open(t, "recyclable", 2)
	var all []shard.Row
	for i, r := range rows(300) {
		switch i % 3 {
		case 1:
			r.State = name.Locked
		case 2:
			r.State, r.RecyclableAt = name.Released, epoch.Add(time.Duration(i)*time.Minute)
		}
		all = append(all, r)
	}
	if _, err := s.Load(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all[:3] {
		if r.State == name.Released {
			continue
		}
		if got, found := mustLookup(t, s, r.Name); !found || got != r {
			t.Errorf("Lookup of a loaded row = %+v, %t, want %+v", got, found, r)
		}
	}
	for _, c := range []struct{ minutes, limit, want int }{{1, 500, 0}, {2, 500, 1}, {150, 500, 50}, {300, 500, 100}, {300, 30, 30}, {300, 0, 0}} {
		names, err := s.Recyclable(t.Context(), epoch.Add(time.Duration(c.minutes)*time.Minute), c.limit)
		if err != nil || len(names) != c.want {
			t.Errorf("Recyclable(%d min, %d) = %d names, %v, want %d", c.minutes, c.limit, len(names), err, c.want)
		}
		for _, n := range names {
			if i, err := strconv.Atoi(strings.TrimPrefix(n, "user")); err != nil || i%3 != 2 || i > c.minutes {
				t.Errorf("Recyclable(%d min) lists %s", c.minutes, n)
			}
		}
	}
}

// checkUsers claims with mobile numbers and ids that are taken.
func checkUsers(t *testing.T, open opener) {
	s := open(t, "users", 2)
	claim := func(n string, user int64, mobile string) (bool, error) {
		return s.Claim(t.Context(), shard.Claim{Name: n, UserID: user, At: epoch, Mobile: mobile})
	}
	if won, err := claim("love", 1, "+491701"); !won || err != nil {
		t.Fatalf("Claim = %t, %v", won, err)
	}
	if won, err := claim("baby", 2, "+491701"); won || !errors.Is(err, shard.ErrMobileTaken) {
		t.Errorf("Claim with a mobile number that is taken = %t, %v", won, err)
	}
	if won, err := claim("baby", 1, "+491702"); won || err == nil || errors.Is(err, shard.ErrMobileTaken) {
		t.Errorf("Claim with a user id that exists = %t, %v, want another error", won, err)
	}
	if _, found := mustLookup(t, s, "baby"); found {
		t.Error("a claim that failed left the name behind")
	}
	if won, err := claim("love", 3, "+491701"); won || err != nil {
		t.Errorf("Claim of what is taken in both ways = %t, %v, want false: the name comes first", won, err)
	}
	mustMove(t, s, shard.Move{Name: "love", From: name.Claimed, To: name.Released, UserID: 1, At: epoch})
	if won, err := claim("baby", 4, "+491701"); !won || err != nil {
		t.Errorf("Claim with the number of a user who has gone = %t, %v", won, err)
	}
	if got := len(outbox(t, s)); got != 3 {
		t.Errorf("%d events, want 3", got)
	}
}
