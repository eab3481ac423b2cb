package shard_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

// TestSharedClaims crowds two instances of one shard, so that claims share transactions.
func TestSharedClaims(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, 5)
	t.Run("race", func(t *testing.T) { checkSharedRace(t, pg) })
	t.Run("spoilt", func(t *testing.T) { checkSpoilt(t, pg) })
	t.Run("starved", func(t *testing.T) { checkStarved(t, pg) })
	t.Run("moved", func(t *testing.T) { checkMovedUnderClaims(t, pg) })
}

func openAt(t *testing.T, dsn string, pool int) *shard.Postgres {
	t.Helper()
	s, err := shard.OpenPostgres(t.Context(), dsn, shard.PostgresOptions{PoolSize: pool})
	if err != nil {
		t.Fatal(err)
	}
	c, err := shard.OpenCluster(t.Context(), []shard.Store{s}, shard.DefaultRoutingTable(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s
}

// checkSharedRace lets many claim the same names in opposite orders.
func checkSharedRace(t *testing.T, pg *local.Postgres) {
	const names, crowd = 200, 24
	stores := []*shard.Postgres{openAt(t, pg.DSN(0), 4), openAt(t, pg.DSN(0), 4)}
	var won [names]atomic.Int64
	var all sync.WaitGroup
	for g := range crowd {
		all.Go(func() {
			for k := range names {
				i := k
				if g%2 == 0 {
					i = names - 1 - k
				}
				id := int64(g*names + i + 1)
				ok, err := stores[g/2%2].Claim(t.Context(), shard.Claim{Name: "crowd" + strconv.Itoa(i), UserID: id, At: epoch})
				if err != nil {
					t.Errorf("Claim = %v", err)
				}
				if ok && won[i].Swap(id) != 0 {
					t.Errorf("crowd%d was won twice", i)
				}
			}
		})
	}
	all.Wait()
	events, err := stores[0].Outbox(t.Context(), 10*names)
	if err != nil || len(events) != names {
		t.Errorf("%d events, %v, want one for each of %d names", len(events), err, names)
	}
	for i := range won {
		if row, found := mustLookup(t, stores[0], "crowd"+strconv.Itoa(i)); !found || row.UserID != won[i].Load() {
			t.Errorf("crowd%d: row %+v, %t, want user %d", i, row, found, won[i].Load())
		}
	}
}

// checkSpoilt lets one claim in each crowd be impossible: its user exists. The others must not suffer.
func checkSpoilt(t *testing.T, pg *local.Postgres) {
	s := openAt(t, pg.DSN(1), 4)
	mustClaim(t, s, shard.Row{Name: "first", UserID: 1, CreatedAt: epoch})
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			id := int64(i + 2)
			if i%10 == 0 {
				id = 1
			}
			won, err := s.Claim(t.Context(), shard.Claim{Name: "spoilt" + strconv.Itoa(i), UserID: id, At: epoch})
			if spoilt := id == 1; won == spoilt || (err != nil) != spoilt {
				t.Errorf("Claim by user %d = %t, %v", id, won, err)
			}
		})
	}
	all.Wait()
}

// checkStarved takes the only connection away: every claim ends with its context, certain not to have been made, and is counted.
func checkStarved(t *testing.T, pg *local.Postgres) {
	s := openAt(t, pg.DSN(2), 1)
	mustClaim(t, s, shard.Row{Name: "reader", UserID: 1, CreatedAt: epoch})
	holding, release := make(chan struct{}), make(chan struct{})
	read := make(chan error, 1)
	go func() {
		read <- s.Names(context.WithoutCancel(t.Context()), func(string) error { close(holding); <-release; return nil })
	}()
	<-holding
	before := s.Pool()
	const crowd = 20
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			if won, err := s.Claim(ctx, shard.Claim{Name: "starved" + strconv.Itoa(i), UserID: int64(i + 2), At: epoch}); won || !errors.Is(err, shard.ErrNoConnection) {
				t.Errorf("Claim = %t, %v, want %v", won, err, shard.ErrNoConnection)
			}
		})
	}
	eventually(t, func() bool { return s.Pool().Pending == crowd })
	all.Wait()
	if p := s.Pool(); p.Timeouts-before.Timeouts != crowd || p.Waits-before.Waits != crowd || p.Pending != 0 {
		t.Errorf("pool = %+v, was %+v, want %d timeouts more and nobody waiting", p, before, crowd)
	}
	close(release)
	if err := <-read; err != nil {
		t.Error(err)
	}
	if got := allNames(t, s); len(got) != 1 {
		t.Errorf("names = %q, want none of those that starved", got)
	}
}

// checkMovedUnderClaims moves a bucket while two claims for it are in a transaction that has looked at the bucket and does not
// get on. The move must wait for them: their names would be left where nobody looks.
func checkMovedUnderClaims(t *testing.T, pg *local.Postgres) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const bucket = 5 // the first half of the buckets is the first shard's
	var names []string
	for i := 0; len(names) < 2; i++ {
		if n := "moved" + strconv.Itoa(i); shard.Bucket(n) == bucket {
			names = append(names, n)
		}
	}
	open := func(pool int) *shard.Cluster {
		stores := make([]shard.Store, 2)
		for i := range stores {
			s, err := shard.OpenPostgres(ctx, pg.DSN(3+i), shard.PostgresOptions{PoolSize: pool})
			if err != nil {
				t.Fatal(err)
			}
			stores[i] = s
		}
		c, err := shard.OpenCluster(ctx, stores, shard.DefaultRoutingTable(2))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	claims, mover := open(1), open(2)
	raw, err := pgx.Connect(ctx, pg.DSN(3))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only in the way
	waits := func(lock string) bool {
		var some bool
		if err := raw.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = $1 AND NOT granted)", lock).Scan(&some); err != nil {
			t.Fatal(err)
		}
		return some
	}

	// Somebody inserts one of the names and does not commit.
	if _, err := raw.Exec(ctx, "BEGIN"); err != nil {
		t.Fatal(err)
	}
	insert := fmt.Sprintf("INSERT INTO names_%02d (username, user_id, created_at) VALUES ($1, 9, $2)", shard.SubTable(names[0]))
	if _, err := raw.Exec(ctx, insert, names[0], epoch); err != nil {
		t.Fatal(err)
	}
	store := claims.Store(0).(*shard.Postgres)
	giveBack, err := store.Hold(ctx) // so that both claims are there before there is a connection
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, n := range names {
		all.Go(func() {
			if won, err := claims.Claim(ctx, shard.Claim{Name: n, UserID: int64(i + 1), At: epoch}); !won || err != nil {
				t.Errorf("Claim = %t, %v", won, err)
			}
		})
	}
	eventually(t, func() bool { return store.Pool().Pending == len(names) })
	giveBack()
	eventually(t, func() bool { return waits("transactionid") })
	moved := make(chan struct{})
	all.Go(func() {
		defer close(moved)
		if _, err := mover.Reshard(ctx, bucket, 1); err != nil {
			t.Errorf("Reshard = %v", err)
		}
	})
	eventually(t, func() bool {
		select {
		case <-moved:
			return true
		default:
			return waits("advisory")
		}
	})
	if _, err := raw.Exec(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for i, n := range names {
		if row, found, err := mover.Lookup(ctx, n); !found || err != nil || row.UserID != int64(i+1) {
			t.Errorf("after the move Lookup = %+v, %t, %v, want user %d", row, found, err, i+1)
		}
	}
}
