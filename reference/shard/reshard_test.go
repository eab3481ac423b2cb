package shard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/name"
)

var when = time.Date(2026, 11, 30, 16, 0, 0, 123456000, time.UTC)

// openFiles opens SQLite shards that several clusters share, each with connections of its own.
func openFiles(t testing.TB, dir string, shards int) []Store {
	t.Helper()
	stores := make([]Store, shards)
	for i := range stores {
		s, err := OpenSQLite(t.Context(), filepath.Join(dir, strconv.Itoa(i)), SQLiteOptions{PoolSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	return stores
}

func open(t testing.TB, stores []Store) *Cluster {
	t.Helper()
	c, err := OpenCluster(t.Context(), stores, DefaultRoutingTable(len(stores)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// namesIn lists n names of one bucket, of all its parts.
func namesIn(bucket, n int) []string {
	var all []string
	for i := 0; len(all) < n; i++ {
		if name := "u" + strconv.Itoa(i); Bucket(name) == bucket {
			all = append(all, name)
		}
	}
	return all
}

func claim(t testing.TB, c *Cluster, name string, user int64) bool {
	t.Helper()
	won, err := c.Claim(t.Context(), Claim{Name: name, UserID: user, At: when, Mobile: "+" + strconv.FormatInt(user, 10)})
	if err != nil {
		t.Fatalf("Claim(%q): %v", name, err)
	}
	return won
}

// whereabouts lists the shards that have a row of each name.
func whereabouts(t testing.TB, c *Cluster) map[string][]int {
	t.Helper()
	at := map[string][]int{}
	for i := range c.Len() {
		if err := c.Store(i).Names(t.Context(), func(n string) error { at[n] = append(at[n], i); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// checkHomes fails unless every name is at its home alone, with the owner given.
func checkHomes(t testing.TB, c *Cluster, owners map[string]int64) {
	t.Helper()
	at := whereabouts(t, c)
	for n, owner := range owners {
		if row, found, err := c.Lookup(t.Context(), n); err != nil || !found || row.UserID != owner {
			t.Errorf("Lookup(%s) = %v, %t, %v, want user %d", n, row, found, err, owner)
		}
		if got, want := at[n], []int{c.Owner(n)}; !slices.Equal(got, want) {
			t.Errorf("%s is on the shards %v, want %v", n, got, want)
		}
	}
	if len(at) != len(owners) {
		t.Errorf("the shards hold %d names, want %d", len(at), len(owners))
	}
}

func TestReshard(t *testing.T) {
	t.Parallel()
	const bucket = 17 // shard 0 of 3 owns it
	c := open(t, openFiles(t, t.TempDir(), 3))
	owners := map[string]int64{}
	names := namesIn(bucket, 80)
	for i, n := range append(slices.Clone(names[:70]), "love", "baby", "cat") {
		owners[n] = int64(i) + 1
		claim(t, c, n, owners[n])
	}
	released := Move{Name: names[0], From: name.Claimed, To: name.Released, UserID: 1, At: when, RecyclableAt: when.Add(1000 * time.Hour)}
	if moved, err := c.Move(t.Context(), released); !moved || err != nil {
		t.Fatalf("Move = %t, %v", moved, err)
	}
	before, _, err := c.Lookup(t.Context(), names[0])
	if err != nil {
		t.Fatal(err)
	}

	for _, to := range [][]int{{1}, {2, 0}, {0, 1, 2, 0}, {1, 1, 1, 1, 1, 1, 1, 2}, {2}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0}, {0}} {
		version := c.Table().Version
		done, err := c.Reshard(t.Context(), bucket, to...)
		if err != nil {
			t.Fatalf("Reshard to %v: %v", to, err)
		}
		if got := c.Table(); got.Change != nil || !slices.Equal(got.owners(bucket), to) || got.Version != version+5 {
			t.Errorf("after Reshard to %v: owners %v, change %v, %d versions later, want 5", to, got.owners(bucket), got.Change, got.Version-version)
		}
		if done.Names != done.Deleted || done.Names == 0 || done.Checksum == 0 || done.Carried != 0 {
			t.Errorf("Reshard to %v tells %+v", to, done)
		}
		checkHomes(t, c, owners)
		after, found, err := c.Lookup(t.Context(), names[0])
		if after != before || !found || err != nil {
			t.Errorf("the released name is %+v, %t, %v, want %+v", after, found, err, before)
		}
		if claim(t, c, names[1], 999) {
			t.Errorf("%s was claimed a second time after Reshard to %v", names[1], to)
		}
		if _, err := c.Claim(t.Context(), Claim{Name: names[2], UserID: 1000, At: when}); err != nil {
			t.Error(err)
		}
	}
	// The user went with the name: the mobile number of a living user is refused at the new home, that of a deleted one is not.
	if _, err := c.Claim(t.Context(), Claim{Name: names[71], UserID: 1001, At: when, Mobile: "+3"}); !errors.Is(err, ErrMobileTaken) {
		t.Errorf("a mobile number that moved is claimed: %v, want ErrMobileTaken", err)
	}
	if won, err := c.Claim(t.Context(), Claim{Name: names[72], UserID: 1002, At: when, Mobile: "+1"}); !won || err != nil {
		t.Errorf("the mobile number of a deleted user is claimed: %t, %v", won, err)
	}
	if n, err := c.Store(0).Placement().notes(t.Context()); err != nil || len(n) > 0 {
		t.Errorf("%d notes are left behind (%v)", len(n), err)
	}
}

func TestReshardRefuses(t *testing.T) {
	t.Parallel()
	c := open(t, openFiles(t, t.TempDir(), 2))
	f := func(want string, bucket int, to ...int) {
		t.Helper()
		if _, err := c.Reshard(t.Context(), bucket, to...); fmt.Sprint(err) != want {
			t.Errorf("Reshard(%d, %v) = %v, want %s", bucket, to, err, want)
		}
	}
	f("there is no bucket 1024, there are 1024", 1024, 0)
	f("there is no bucket -1, there are 1024", -1, 0)
	f("bucket 3 has 0 owners, want 1, 2, 4, 8 or 16", 3)
	f("bucket 3 has 3 owners, want 1, 2, 4, 8 or 16", 3, 0, 1, 0)
	f("bucket 3 is owned by shard 2, there are 2 shards", 3, 2)
	f("routing change: bucket 3 is with [0] already", 3, 0)
	if _, err := c.Resume(t.Context()); !errors.Is(err, ErrChange) {
		t.Errorf("Resume of nothing = %v", err)
	}
	if err := c.Abort(t.Context()); !errors.Is(err, ErrChange) {
		t.Errorf("Abort of nothing = %v", err)
	}
	if got := c.Table().Version; got != 1 {
		t.Errorf("refusals made version %d", got)
	}
}

// errKilled is what every transaction of a killed process ends with.
var errKilled = errors.New("killed")

// mortal is a process that is killed before it commits one of its writing transactions, which is as good as after the commit
// of the one before.
type mortal struct{ left atomic.Int64 }

// mortalStore is a shard as a mortal process sees it.
type mortalStore struct {
	Store
	life *mortal
}

func (m mortalStore) Placement() Placement {
	return Placement{db: mortalSessions{m.Store.Placement().db, m.life}}
}

type mortalSessions struct {
	sessions
	life *mortal
}

func (m mortalSessions) transact(ctx context.Context, work func(session) error) error {
	return m.sessions.transact(ctx, func(s session) error {
		writer := &writing{session: s}
		if err := work(writer); err != nil {
			return err
		}
		if m.life.left.Load() <= 0 || writer.wrote && m.life.left.Add(-1) == 0 {
			return errKilled
		}
		return nil
	})
}

// writing takes down whether a session writes.
type writing struct {
	session
	wrote bool
}

func (w *writing) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	w.wrote = true
	return w.session.exec(ctx, sql, args...)
}

// TestReshardKilled kills the mover at each of its transactions and then lets another instance, which does not know of the change, register names, and a third one resume the change or turn it back.
func TestReshardKilled(t *testing.T) {
	t.Parallel()
	const bucket = 17
	dir := t.TempDir()
	life := new(mortal)
	life.left.Store(1000)
	stores := openFiles(t, dir, 2)
	for i := range stores {
		stores[i] = mortalStore{stores[i], life}
	}
	mover, stale, rescuer := open(t, stores), open(t, openFiles(t, dir, 2)), open(t, openFiles(t, dir, 2))
	names := namesIn(bucket, 12)
	for n, finished := int64(1), false; !finished; n++ {
		for _, abort := range []bool{false, true} {
			owners, unclear := map[string]int64{}, map[string]int64{}
			attempt := func(name string, user int64, patience time.Duration) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				won, err := stale.Claim(ctx, Claim{Name: name, UserID: user, At: when})
				switch {
				case errors.Is(err, ErrMoved) && patience < time.Second, errors.Is(err, ErrNoConnection) && patience < time.Second:
				case errors.Is(err, context.DeadlineExceeded) && patience < time.Second:
					unclear[name] = user
				case err != nil:
					t.Errorf("Claim = %v", err)
				case won != (owners[name] == 0):
					t.Errorf("Claim(%s) = %t, its owner is %d", name, won, owners[name])
				case won:
					owners[name] = user
				}
			}
			for i, name := range names[:6] {
				attempt(name, int64(i)+1, time.Minute)
			}
			to := []int{1, 0}
			if slices.Equal(mover.Table().owners(bucket), to) {
				to = []int{0}
			}
			life.left.Store(n)
			_, err := mover.Reshard(t.Context(), bucket, to...)
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatalf("kill %d: %v", n, err)
			}
			life.left.Store(1 << 40)
			finished = err == nil
			for i, name := range names[4:10] { // a registration wins, loses or is refused
				attempt(name, int64(i)+100, 10*time.Millisecond)
			}
			if !finished {
				if abort {
					err = rescuer.Abort(t.Context())
				}
				if !abort || errors.Is(err, ErrChange) {
					_, err = rescuer.Resume(t.Context())
				}
				if err != nil && (!errors.Is(err, ErrChange) || rescuer.Table().Change != nil) { // killed before it began, or after its end
					t.Fatalf("kill %d: rescue: %v", n, err)
				}
			}
			for name, user := range unclear {
				if row, _, err := stale.Lookup(t.Context(), name); err != nil {
					t.Error(err)
				} else if row.UserID == user {
					owners[name] = user
				}
			}
			for i, name := range names {
				attempt(name, int64(i)+200, time.Minute)
			}
			if len(owners) != len(names) {
				t.Errorf("%d names are registered after the rescue, want %d", len(owners), len(names))
			}
			checkHomes(t, stale, owners)
			checkHomes(t, rescuer, owners)
			if err := rescuer.checkDrift(t.Context()); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("kill %d, abort %t", n, abort)
			}
			wipe(t, rescuer)
			if err := mover.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n > 400 {
			t.Fatal("the change never ends")
		}
	}
}

// wipe deletes all names and users.
func wipe(t testing.TB, c *Cluster) {
	t.Helper()
	for i := range c.Len() {
		err := c.Store(i).Placement().db.transact(t.Context(), func(s session) error {
			for _, table := range tables() {
				if _, err := s.exec(t.Context(), "DELETE FROM "+table.name); err != nil {
					return err
				}
			}
			_, err := s.exec(t.Context(), "DELETE FROM users")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReshardRace lets three clusters register names of one bucket, a share of them in each of four changes of its owners.
func TestReshardRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var clusters []*Cluster
	for range 3 {
		clusters = append(clusters, open(t, openFiles(t, dir, 2)))
	}
	const bucket, share = 700, 50
	layouts := [][]int{{0}, {0, 1}, {1}, {1, 0, 1, 0}}
	names := namesIn(bucket, share*len(layouts))
	begun := make([]chan struct{}, len(layouts))
	for i := range begun {
		begun[i] = make(chan struct{})
	}
	var wins [3]map[string]int64
	var all sync.WaitGroup
	for i, c := range clusters {
		wins[i] = map[string]int64{}
		all.Go(func() {
			for j := range names {
				<-begun[j/share]
				n, user := names[j/share*share+(j+i*7)%share], int64(1000*j+i+1)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				won, err := c.Claim(ctx, Claim{Name: n, UserID: user, At: when})
				cancel()
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				if won {
					wins[i][n] = user
				}
				if _, found, err := c.Lookup(t.Context(), n); err != nil || !found {
					t.Errorf("Lookup of a name that is taken = %t, %v", found, err)
				}
			}
		})
	}
	carried := 0
	for round, to := range layouts {
		close(begun[round])
		done, err := clusters[round%3].Reshard(t.Context(), bucket, to...)
		if err != nil {
			t.Fatal(err)
		}
		carried += done.Carried
	}
	all.Wait()
	owners := map[string]int64{}
	for _, won := range wins {
		for n, user := range won {
			if owners[n] != 0 {
				t.Errorf("%s was won by %d and by %d", n, owners[n], user)
			}
			owners[n] = user
		}
	}
	if len(owners) != len(names) {
		t.Errorf("%d names have an owner, want %d", len(owners), len(names))
	}
	for _, c := range clusters {
		checkHomes(t, c, owners)
	}
	t.Logf("%d of %d names were carried over after they were copied", carried, len(names))
}

// TestMoversLockEachOtherOut lets a mover that was thought dead go on.
func TestMoversLockEachOtherOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := open(t, openFiles(t, dir, 2)), open(t, openFiles(t, dir, 2))
	claim(t, first, "love", 1)
	bucket := Bucket("love") // of shard 1
	begun, err := first.Table().begin(bucket, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.publish(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	old := mover{cluster: first, change: *begun.Change, pass: pass{bucket, begun.Version}, dirty: map[string]bool{}}
	if _, err := second.Reshard(t.Context(), 5, 1); !errors.Is(err, ErrChange) {
		t.Errorf("a second change beside the first: %v, want ErrChange", err)
	}
	if _, err := second.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := old.copy(t.Context()); err == nil && old.at(0).put(t.Context(), old.pass, []string{"love"}, nil) == nil {
		t.Error("a mover whose change was taken up and finished may still write")
	}
	if err := old.at(0).put(t.Context(), old.pass, []string{"love"}, nil); !errors.Is(err, ErrStaleTable) {
		t.Errorf("put by the old mover = %v, want ErrStaleTable", err)
	}
	if err := old.at(0).drop(t.Context(), old.pass, []string{"love"}); !errors.Is(err, ErrStaleTable) {
		t.Errorf("drop by the old mover = %v, want ErrStaleTable", err)
	}
	next, err := begun.advance()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.publish(t.Context(), next); !errors.Is(err, ErrStaleTable) {
		t.Errorf("the old mover's next table = %v, want ErrStaleTable", err)
	}
	checkHomes(t, first, map[string]int64{"love": 1})
}
