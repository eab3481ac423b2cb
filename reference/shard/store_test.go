package shard_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// epoch is when the rows of these tests were registered, with all the digits that a store keeps.
var epoch = time.Date(2026, 11, 30, 16, 0, 0, 123456000, time.UTC)

// opener opens a place that is new to each test, and again the same place for the same id.
type opener func(t *testing.T, id string, poolSize int) shard.Store

func openSQLite(t *testing.T) opener {
	dir := t.TempDir()
	return func(t *testing.T, id string, poolSize int) shard.Store {
		t.Helper()
		// The name of the file is as bad as a name can be.
		s, err := shard.OpenSQLite(t.Context(), filepath.Join(dir, id+" 100%?a=b#c.db"), shard.SQLiteOptions{PoolSize: poolSize})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

func openPostgres(t *testing.T, dsn string) opener {
	return func(t *testing.T, id string, poolSize int) shard.Store {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		schema := pgx.Identifier{strings.ToLower(id)}.Sanitize()
		if _, err := conn.Exec(t.Context(), "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := shard.OpenPostgres(t.Context(), dsn+"&search_path="+strings.ToLower(id), shard.PostgresOptions{PoolSize: poolSize})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

func startPostgres(t *testing.T, shards int) *local.Postgres {
	t.Helper()
	pg, err := local.StartPostgres(context.WithoutCancel(t.Context()), local.PostgresOptions{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	return pg
}

// TestStore holds both databases to the contract of Store, and PostgreSQL to what it promises besides, all on one server.
func TestStore(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, 1)
	t.Run("PostgresRights", func(t *testing.T) {
		t.Parallel()
		checkRights(t, pg)
	})
	t.Run("PostgresReplica", func(t *testing.T) {
		t.Parallel()
		checkReplica(t, pg)
	})
	t.Run("PostgresMigration", func(t *testing.T) {
		t.Parallel()
		checkMigratePostgres(t, pg)
	})
	t.Run("PostgresSampleCost", func(t *testing.T) {
		t.Parallel()
		checkSampleCost(t, pg)
	})
	for database, open := range map[string]opener{"sqlite": openSQLite(t), "postgres": openPostgres(t, pg.DSN(0))} {
		t.Run(database, func(t *testing.T) {
			for name, check := range map[string]func(*testing.T, opener){
				"RoundTrip":  checkRoundTrip,
				"Hostile":    checkHostileNames,
				"Race":       checkRace,
				"Load":       checkLoad,
				"Sample":     checkSample,
				"Names":      checkNames,
				"Reopen":     checkReopen,
				"Saturation": checkSaturation,
				"Ended":      checkEnded,
				"Life":       checkLife,
				"Illegal":    checkIllegal,
				"Walk":       checkWalk,
				"Contest":    checkContest,
				"Outbox":     checkOutbox,
				"Recyclable": checkRecyclable,
				"Users":      checkUsers,
				"Mobiles":    checkMobiles,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					check(t, open)
				})
			}
		})
	}
}

// mustClaim claims the row's name for its user.
func mustClaim(t *testing.T, s shard.Store, r shard.Row) bool {
	t.Helper()
	won, err := s.Claim(t.Context(), shard.Claim{Name: r.Name, UserID: r.UserID, At: r.CreatedAt})
	if err != nil {
		t.Fatalf("Claim(%q): %v", r.Name, err)
	}
	return won
}

func mustLookup(t *testing.T, s shard.Store, name string) (shard.Row, bool) {
	t.Helper()
	row, found, err := s.Lookup(t.Context(), name)
	if err != nil {
		t.Fatalf("Lookup(%q): %v", name, err)
	}
	return row, found
}

func allNames(t *testing.T, s shard.Store) []string {
	t.Helper()
	var names []string
	err := s.Names(t.Context(), func(name string) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatalf("Names: %v", err)
	}
	slices.Sort(names)
	return names
}

func rows(n int) []shard.Row {
	all := make([]shard.Row, n)
	for i := range all {
		all[i] = shard.Row{Name: "user" + strconv.Itoa(i), UserID: int64(i), CreatedAt: epoch, State: name.Claimed}
	}
	return all
}

func checkRoundTrip(t *testing.T, open opener) {
	s := open(t, "roundtrip", 2)
	if row, found := mustLookup(t, s, "love"); found {
		t.Errorf("Lookup in an empty store finds %v", row)
	}
	first := shard.Row{Name: "love", UserID: 1<<63 - 1, CreatedAt: epoch.In(time.FixedZone("far away", 9*3600))}
	if !mustClaim(t, s, first) {
		t.Error("the first Claim of a name lost")
	}
	if mustClaim(t, s, shard.Row{Name: "love", UserID: 2, CreatedAt: epoch.Add(time.Hour)}) {
		t.Error("the second Claim of a name won")
	}
	row, found := mustLookup(t, s, "love")
	if want := (shard.Row{Name: "love", UserID: 1<<63 - 1, CreatedAt: epoch, State: name.Claimed}); !found || row != want {
		t.Errorf("Lookup = %v, %t, want %v, true", row, found, want)
	}
	if _, found := mustLookup(t, s, "lov"); found {
		t.Error("Lookup finds a name by its beginning")
	}
}

func checkHostileNames(t *testing.T, open opener) {
	s := open(t, "hostile", 2)
	names := []string{
		"", " ", "'; DROP TABLE names_00; --", `"quoted"`, "100%", "under_score", "$1", "?", "?1", `back\slash`, "ｌｏｖｅ", "ß", "ss",
		"é", "e\u0301", "爱", "😀", "I", "i", "ı", strings.Repeat("long", 500), "line\nbreak", "undefined", "null",
	}
	for i, name := range names {
		if !mustClaim(t, s, shard.Row{Name: name, UserID: int64(i), CreatedAt: epoch}) {
			t.Errorf("Claim(%q) lost, but no byte-equal name was there", name)
		}
	}
	for i, name := range names {
		if row, found := mustLookup(t, s, name); !found || row.UserID != int64(i) || row.Name != name {
			t.Errorf("Lookup(%q) = %v, %t, want user %d", name, row, found, i)
		}
	}
	slices.Sort(names)
	if got := allNames(t, s); !slices.Equal(got, names) {
		t.Errorf("Names = %q, want %q", got, names)
	}
}

// checkRace lets 64 callers fight for each of a few names.
func checkRace(t *testing.T, open opener) {
	s := open(t, "race", 8)
	const callers, names = 64, 10
	var winners [names][]int64
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	for caller := range int64(callers) {
		all.Go(func() {
			<-begin
			for n := range names {
				won, err := s.Claim(t.Context(), shard.Claim{Name: "name" + strconv.Itoa(n), UserID: caller*names + int64(n), At: epoch})
				if err != nil {
					t.Errorf("Claim: %v", err)
				}
				if won {
					mu.Lock()
					winners[n] = append(winners[n], caller*names+int64(n))
					mu.Unlock()
				}
			}
		})
	}
	close(begin)
	all.Wait()
	for n, who := range winners {
		if len(who) != 1 {
			t.Errorf("name%d was won by %v, want exactly one", n, who)
			continue
		}
		if row, _ := mustLookup(t, s, "name"+strconv.Itoa(n)); row.UserID != who[0] {
			t.Errorf("name%d was won by %d but belongs to %d", n, who[0], row.UserID)
		}
	}
	if p := s.Pool(); p.InUse != 0 || p.Pending != 0 || p.Waits == 0 || p.Acquires < callers*names || p.Timeouts != 0 {
		t.Errorf("after the race the pool is %+v, want nothing in use or pending, some waits, no timeouts", p)
	}
}

func checkLoad(t *testing.T, open opener) {
	s := open(t, "load", 2)
	if n, err := s.Load(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("Load(nothing) = %d, %v, want 0, nil", n, err)
	}
	mustClaim(t, s, shard.Row{Name: "user7", UserID: 777, CreatedAt: epoch})
	batch := append(rows(2500), rows(10)...) // ten names twice
	if n, err := s.Load(t.Context(), batch); n != 2499 || err != nil {
		t.Errorf("Load = %d, %v, want 2499, nil", n, err)
	}
	if row, _ := mustLookup(t, s, "user7"); row.UserID != 777 {
		t.Errorf("Load gave user7 to %d, want it left with 777", row.UserID)
	}
	if row, found := mustLookup(t, s, "user2499"); !found || row != rows(2500)[2499] {
		t.Errorf("Lookup after Load = %v, %t", row, found)
	}
	if got := len(allNames(t, s)); got != 2500 {
		t.Errorf("%d names after Load, want 2500", got)
	}
}

func checkSample(t *testing.T, open opener) {
	s := open(t, "sample", 2)
	sample := func(n int, before time.Time) []string {
		t.Helper()
		rows, err := s.Sample(t.Context(), n, before)
		if err != nil {
			t.Fatalf("Sample(%d): %v", n, err)
		}
		names := make([]string, len(rows))
		for i, r := range rows {
			names[i] = r.Name
			if stored, found := mustLookup(t, s, r.Name); i < 20 && (!found || stored != r) {
				t.Errorf("Sample(%d) gives %+v, Lookup %+v, %t", n, r, stored, found)
			}
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(names))); len(distinct) != len(names) || len(names) > n {
			t.Errorf("Sample(%d) gives %d names, %d different", n, len(names), len(distinct))
		}
		return names
	}
	if got := sample(10, epoch); len(got) != 0 {
		t.Errorf("Sample of an empty store = %q", got)
	}

	old, young := rows(8000), rows(9000)[8000:]
	for i := range young {
		young[i].CreatedAt = epoch.Add(time.Minute)
	}
	if _, err := s.Load(t.Context(), append(old, young...)); err != nil {
		t.Fatal(err)
	}
	if got := sample(10, epoch); len(got) != 0 {
		t.Errorf("Sample before the first name = %q", got)
	}
	if got := sample(0, epoch.Add(time.Hour)); len(got) != 0 {
		t.Errorf("Sample(0) = %q", got)
	}
	seen := map[string]int{}
	for range 20 {
		names := sample(200, epoch.Add(time.Second))
		if len(names) < 150 {
			t.Errorf("Sample(200) of 8000 gives only %d", len(names))
		}
		for _, name := range names {
			i, err := strconv.Atoi(strings.TrimPrefix(name, "user"))
			if err != nil || i >= 8000 {
				t.Fatalf("Sample gives %q, which was not registered in time", name)
			}
			seen[name]++
		}
	}
	// 20 draws of 200 from 8000 see about 8000(1-(1-1/40)^20) = 3180 different names; the same corner again and again, 200.
	if len(seen) < 2500 {
		t.Errorf("20 samples of 200 saw only %d different names of 8000", len(seen))
	}
	if got := sample(5000, epoch.Add(time.Hour)); len(got) < 3000 {
		t.Errorf("Sample(5000) of 9000 gives only %d", len(got))
	}
}

func checkNames(t *testing.T, open opener) {
	s := open(t, "names", 1)
	if _, err := s.Load(t.Context(), rows(1000)); err != nil {
		t.Fatal(err)
	}
	if got := allNames(t, s); len(got) != 1000 || got[0] != "user0" {
		t.Errorf("Names gives %d names, want 1000", len(got))
	}
	enough, calls := errors.New("enough"), 0
	err := s.Names(t.Context(), func(string) error {
		if calls++; calls == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || calls != 3 {
		t.Errorf("Names went on for %d calls and gave %v, want 3 and the error of yield", calls, err)
	}
	if got := allNames(t, s); len(got) != 1000 { // the only connection works again
		t.Errorf("Names after a walk that was broken off gives %d names, want 1000", len(got))
	}
}

// checkReopen opens one place many times at once, then finds in it what was left.
func checkReopen(t *testing.T, open opener) {
	first := open(t, "reopen", 1)
	mustClaim(t, first, shard.Row{Name: "love", UserID: 5, CreatedAt: epoch})
	if err := first.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, _, err := first.Lookup(t.Context(), "love"); err == nil {
		t.Error("Lookup in a closed store gives no error")
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if row, found := mustLookup(t, open(t, "reopen", 1), "love"); !found || row.UserID != 5 {
				t.Errorf("after opening again Lookup = %v, %t", row, found)
			}
		})
	}
	all.Wait()
}

// checkSaturation uses up a pool of two and looks at it from all sides.
func checkSaturation(t *testing.T, open opener) {
	s := open(t, "saturation", 2)
	if _, err := s.Load(t.Context(), rows(1)); err != nil {
		t.Fatal(err)
	}
	before := s.Pool()

	release := make(chan struct{})
	var holding atomic.Int32
	var holders sync.WaitGroup
	for range 2 {
		holders.Go(func() {
			err := s.Names(t.Context(), func(string) error {
				holding.Add(1)
				<-release
				return nil
			})
			if err != nil {
				t.Errorf("Names: %v", err)
			}
		})
	}
	eventually(t, func() bool { return holding.Load() == 2 })

	patient := make(chan error, 1)
	go func() {
		_, _, err := s.Lookup(t.Context(), "user0")
		patient <- err
	}()
	eventually(t, func() bool { return s.Pool().Pending == 1 })
	if p := s.Pool(); p.Size != 2 || p.InUse != 2 || p.Idle != 0 {
		t.Errorf("the pool that is used up is %+v, want 2 of 2 in use, none idle", p)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := s.Lookup(ctx, "user0")
	if !errors.Is(err, shard.ErrNoConnection) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lookup without a connection: %v, want ErrNoConnection and DeadlineExceeded", err)
	}
	if p := s.Pool(); p.Pending != 1 || p.Timeouts != before.Timeouts+1 || p.WaitTime-before.WaitTime < 50*time.Millisecond {
		t.Errorf("after a wait of 50 ms in vain the pool is %+v", p)
	}

	close(release)
	holders.Wait()
	if err := <-patient; err != nil {
		t.Errorf("the patient Lookup: %v", err)
	}
	after := s.Pool()
	if after.InUse != 0 || after.Pending != 0 || after.Idle < 1 || after.Idle > 2 || after.Waits != before.Waits+2 || after.Acquires != before.Acquires+3 {
		t.Errorf("after all is over the pool is %+v, it was %+v", after, before)
	}
}

// checkEnded makes calls whose time is up before they begin. They say nothing about the pool.
func checkEnded(t *testing.T, open opener) {
	s := open(t, "ended", 1)
	before := s.Pool()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Lookup": func() error { _, _, err := s.Lookup(ctx, "love"); return err },
		"Claim":  func() error { _, err := s.Claim(ctx, shard.Claim{Name: "love"}); return err },
		"Load":   func() error { _, err := s.Load(ctx, rows(1)); return err },
		"Sample": func() error { _, err := s.Sample(ctx, 1, epoch); return err },
		"Move": func() error {
			_, err := s.Move(ctx, shard.Move{From: name.Claimed, To: name.Locked, UserID: 1})
			return err
		},
		"Recyclable":    func() error { _, err := s.Recyclable(ctx, epoch, 1); return err },
		"Outbox":        func() error { _, err := s.Outbox(ctx, 1); return err },
		"MarkPublished": func() error { return s.MarkPublished(ctx, []int64{1}) },
		"Republish":     func() error { _, err := s.Republish(ctx, epoch); return err },
		"Purge":         func() error { _, err := s.Purge(ctx, epoch, 1); return err },
		"HoldMobile":    func() error { _, err := s.HoldMobile(ctx, shard.Hold{}, 0); return err },
		"DropMobile":    func() error { return s.DropMobile(ctx, "", 0) },
		"Bury":          func() error { _, err := s.Bury(ctx, "love", 1, epoch); return err },
		"Names":         func() error { return s.Names(ctx, func(string) error { return nil }) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) || !errors.Is(err, shard.ErrNoConnection) {
			t.Errorf("%s with an ended context: %v, want Canceled and ErrNoConnection", name, err)
		}
	}
	if after := s.Pool(); after != before {
		t.Errorf("calls with an ended context moved the pool from %+v to %+v", before, after)
	}
}

// eventually waits for a condition to come true.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited a minute in vain")
		}
	}
}
