package shard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

// files opens the SQLite shards with these numbers, in this order.
func files(t *testing.T, dir string, numbers ...int) []shard.Store {
	t.Helper()
	stores := make([]shard.Store, len(numbers))
	for i, n := range numbers {
		s, err := shard.OpenSQLite(t.Context(), filepath.Join(dir, strconv.Itoa(n)), shard.SQLiteOptions{PoolSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	return stores
}

func openAll(t *testing.T, stores []shard.Store) (*shard.Cluster, error) {
	t.Helper()
	return shard.OpenCluster(t.Context(), stores, shard.DefaultRoutingTable(len(stores)))
}

// tamper changes what a shard has on disk.
func tamper(t *testing.T, dir string, number int, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, strconv.Itoa(number)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the statement is committed
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// TestOpenClusterChecks opens shards that do not fit together.
func TestOpenClusterChecks(t *testing.T) {
	t.Parallel()
	// prepare makes three shards with names, at routing table version 6.
	prepare := func(t *testing.T) string {
		t.Helper()
		dir := t.TempDir()
		cluster, err := openAll(t, files(t, dir, 0, 1, 2))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Seed(t.Context(), names(3000)); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Reshard(t.Context(), 3, 1, 2); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	f := func(what, want string, open []int, harm func(t *testing.T, dir string)) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := prepare(t)
			if harm != nil {
				harm(t, dir)
			}
			_, err := openAll(t, files(t, dir, open...))
			if got := fmt.Sprint(err); got != want && (want == "<nil>" || !strings.Contains(got, want)) {
				t.Errorf("OpenCluster = %v, want %s", err, want)
			}
			if err != nil && strings.Contains(err.Error(), load.Name(0)[:4]) {
				t.Errorf("the error shows a name: %v", err)
			}
		})
	}
	f("as it was", "<nil>", []int{0, 1, 2}, nil)
	f("one shard more", "<nil>", []int{0, 1, 2, 3}, nil)
	f("another order", "shard0: this database is shard1 of its cluster: the order of the databases has changed", []int{1, 0, 2}, nil)
	f("too few", "is owned by shard 2, there are 2 shards", []int{0, 1}, nil)
	f("a lost database", "shard2: it has no routing table, but owns buckets in version 6: is this the right database?", []int{0, 1, 7}, nil)
	f("a restored backup", "shard1: routing table version 6 does not follow version 4", []int{0, 1, 2}, func(t *testing.T, dir string) {
		tamper(t, dir, 1, `UPDATE routing SET version = 4, document = json_set(document, '$.version', 4)`)
	})
	f("no legal successor", "routing table version 7 is no legal successor of version 6", []int{0, 1, 2}, func(t *testing.T, dir string) {
		tamper(t, dir, 1, `UPDATE routing SET version = 7, document = json_set(document, '$.version', 7, '$.owners[5]', 2)`)
	})
	f("the same version twice", "it has another routing table of version 6 than another shard", []int{0, 1, 2}, func(t *testing.T, dir string) {
		tamper(t, dir, 2, `UPDATE routing SET document = json_set(document, '$.owners[5]', 2)`)
	})
	f("a strange database", "it has names but no routing table, the others have version 6", []int{0, 1, 2, 3}, func(t *testing.T, dir string) {
		if _, err := files(t, dir, 3)[0].Load(t.Context(), rows(10)); err != nil {
			t.Fatal(err)
		}
	})
	f("drift", "names sampled on shard0 belong to other shards by routing table version 6, those of bucket ", []int{0, 1, 2}, func(t *testing.T, dir string) {
		var all strings.Builder
		all.WriteString(`'$.version', 6`)
		for b := range 300 {
			fmt.Fprintf(&all, ", '$.owners[%d]', 1", b)
		}
		for number := range 3 {
			tamper(t, dir, number, `UPDATE routing SET document = json_set(document, `+all.String()+`)`)
		}
	})
	f("no table at all", "the routing table", []int{0, 1, 2}, func(t *testing.T, dir string) {
		tamper(t, dir, 1, `UPDATE routing SET document = 'nonsense'`)
	})
}

// TestDriftErrorTells finds out what is wrong from the error alone.
func TestDriftErrorTells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stores := files(t, dir, 0, 1)
	if _, err := stores[0].Load(t.Context(), rows(200)); err != nil { // half of them belong to shard1
		t.Fatal(err)
	}
	_, err := openAll(t, stores)
	var drift *shard.DriftError
	if !errors.As(err, &drift) {
		t.Fatalf("OpenCluster = %v, want a DriftError", err)
	}
	if drift.Shard != "shard0" || drift.Owner != "shard1" || drift.Version != 1 || drift.Bucket < 512 || drift.Sampled < 150 ||
		drift.Wrong < drift.Sampled/4 || drift.Wrong > drift.Sampled*3/4 {
		t.Errorf("the drift is %+v", drift)
	}
}

// TestOpenClusterTogether lets many instances start at the same time over shards without a table.
func TestOpenClusterTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 5 {
		stores := files(t, dir, 0, 1)
		all.Go(func() {
			if c, err := openAll(t, stores); err != nil {
				t.Errorf("OpenCluster: %v", err)
			} else if v := c.Table().Version; v != 1 {
				t.Errorf("version %d, want 1", v)
			}
		})
	}
	all.Wait()
}

// TestReshardOnPostgres is the race of TestReshardRace on real databases: three clusters register names of one bucket, and
// look them up, a share of them in each of four changes of the bucket's owners.
func TestReshardOnPostgres(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, 2)
	var clusters []*shard.Cluster
	for range 3 {
		clusters = append(clusters, openShared(t, pg))
	}
	const bucket = 700
	var wanted []string
	for i := 0; len(wanted) < 400; i++ {
		if n := load.Name(i); shard.Bucket(n) == bucket {
			wanted = append(wanted, n)
		}
	}
	var owners sync.Map
	var all sync.WaitGroup
	var longest atomic.Int64
	layouts := [][]int{{0}, {0, 1}, {1, 0, 1, 0}, {1}}
	share := len(wanted) / len(layouts)
	begun := make([]chan struct{}, len(layouts))
	for i := range begun {
		begun[i] = make(chan struct{})
	}
	for i, c := range clusters {
		for worker := range 4 {
			all.Go(func() {
				for j := worker; j < len(wanted); j += 4 {
					<-begun[j/share]
					n, user := wanted[j/share*share+(j+i*7)%share], int64(1_000_000*(i+1)+j)
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					won, err := c.Claim(ctx, shard.Claim{Name: n, UserID: user, At: epoch})
					cancel()
					if err != nil {
						t.Errorf("Claim: %v", err)
						return
					}
					longest.Store(max(longest.Load(), int64(time.Since(start))))
					if won {
						if other, twice := owners.LoadOrStore(n, user); twice {
							t.Errorf("%s was won by %d and by %d", n, other, user)
						}
					}
					if _, found, err := c.Lookup(t.Context(), n); err != nil || !found {
						t.Errorf("Lookup of a name that is taken = %t, %v", found, err)
					}
				}
			})
		}
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
	t.Logf("%d of %d names were carried over after they were copied, longest claim %v", carried, len(wanted), time.Duration(longest.Load()))

	at := map[string][]int{}
	for i := range 2 {
		for _, n := range allNames(t, clusters[0].Store(i)) {
			at[n] = append(at[n], i)
		}
	}
	count := 0
	owners.Range(func(n, user any) bool {
		count++
		for _, c := range clusters {
			row, found, err := c.Lookup(t.Context(), n.(string))
			if err != nil || !found || row.UserID != user.(int64) {
				t.Errorf("Lookup(%s) = %v, %t, %v, want user %d", n, row, found, err, user)
			}
			if got, want := at[n.(string)], []int{c.Owner(n.(string))}; !slices.Equal(got, want) {
				t.Errorf("%s is on the shards %v, want %v", n, got, want)
			}
		}
		return true
	})
	if count != len(wanted) || len(at) != count {
		t.Errorf("%d names have an owner, the shards hold %d, want %d", count, len(at), len(wanted))
	}

	// A shard that stops under a change fails it, and the change can be taken up by anybody when it is back.
	pg.Stop(0)
	if _, err := clusters[0].Reshard(t.Context(), bucket, 0, 1); err == nil {
		t.Error("Reshard without a shard gives no error")
	}
	if err := pg.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := openShared(t, pg).Reshard(t.Context(), bucket, 0, 1); err != nil {
		t.Error(err)
	}
}

func openShared(t *testing.T, pg *local.Postgres) *shard.Cluster {
	t.Helper()
	stores := make([]shard.Store, pg.Len())
	for i := range stores {
		s, err := shard.OpenPostgres(t.Context(), pg.DSN(i), shard.PostgresOptions{PoolSize: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	c, err := openAll(t, stores)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
