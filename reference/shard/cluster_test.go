package shard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

func embedded(t testing.TB, shards int) *shard.Cluster {
	t.Helper()
	stores := make([]shard.Store, shards)
	for i := range stores {
		path := filepath.Join(t.TempDir(), strconv.Itoa(i))
		s, err := shard.OpenSQLite(t.Context(), path, shard.SQLiteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = s
	}
	cluster, err := shard.NewCluster(stores, shard.DefaultRoutingTable(shards))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

func names(n int) iter.Seq[shard.Row] {
	return func(yield func(shard.Row) bool) {
		for i := range n {
			if !yield(shard.Row{Name: load.Name(i), UserID: int64(i), CreatedAt: epoch}) {
				return
			}
		}
	}
}

// TestPlaces pins where names live. These figures must never change: every row that exists would be lost.
func TestPlaces(t *testing.T) {
	t.Parallel()
	f := func(name string, bucket, sub int) {
		t.Helper()
		if b, s := shard.Bucket(name), shard.SubTable(name); b != bucket || s != sub {
			t.Errorf("%q is in bucket %d, table %d, want %d, %d", name, b, s, bucket, sub)
		}
	}
	f("", 0, 0)
	f("love", 806, 8)
	f("baby", 857, 6)
	f("cat", 933, 6)
	f("爱", 1001, 2)
	f("hello", 0xcbd8>>6, 0x2) // murmur3 x64-128 of "hello" is known to be cbd8a7b341bd9b02 5b1e906a48ae1d19
}

// TestEvenSpread bounds chi-square of 100,000 names at the 99.9 % point: another hash would fail one time in a thousand,
// this one never, for the names are always the same.
func TestEvenSpread(t *testing.T) {
	t.Parallel()
	const n = 100_000
	f := func(what string, cells int, limit float64, cell func(string) int) {
		t.Helper()
		counts := make([]float64, cells)
		total := 0.0
		for row := range names(n) {
			if i := cell(row.Name); i >= 0 {
				counts[i]++
				total++
			}
		}
		chi, expected := 0.0, total/float64(cells)
		for _, c := range counts {
			chi += (c - expected) * (c - expected) / expected
		}
		if chi > limit {
			t.Errorf("%s: chi-square of %.0f names over %d cells is %.1f, want at most %.1f", what, total, cells, chi, limit)
		}
	}
	f("buckets", shard.Buckets, 1168, shard.Bucket)
	f("tables", shard.SubTables, 37.7, shard.SubTable)
	cluster := embedded(t, 4)
	f("shards", 4, 16.3, cluster.Owner)
	f("tables of one shard", shard.SubTables, 37.7, func(name string) int {
		if cluster.Owner(name) != 2 {
			return -1
		}
		return shard.SubTable(name)
	})
}

func TestRoutingTable(t *testing.T) {
	t.Parallel()
	f := func(want string, shards int, change func(*shard.RoutingTable)) {
		t.Helper()
		table := shard.DefaultRoutingTable(4)
		change(&table)
		if got := fmt.Sprint(table.Validate(shards)); got != want {
			t.Errorf("Validate = %s, want %s", got, want)
		}
	}
	f("<nil>", 4, func(*shard.RoutingTable) {})
	f("<nil>", 5, func(*shard.RoutingTable) {})
	f("routing table version 1: bucket 768 is owned by shard 3, there are 3 shards", 3, func(*shard.RoutingTable) {})
	f("routing table version 1: bucket 7 is owned by shard -1, there are 4 shards", 4, func(t *shard.RoutingTable) { t.Owners[7] = -1 })
	f("routing table version 1: owners for 1023 buckets, want 1024", 4, func(t *shard.RoutingTable) { t.Owners = t.Owners[1:] })
	f("routing table version 1: owners for 0 buckets, want 1024", 4, func(t *shard.RoutingTable) { t.Owners = nil })
	f("routing table: version 0, want 1 or more", 4, func(t *shard.RoutingTable) { t.Version = 0 })

	for _, shards := range []int{1, 3, 4, 7, 1024} {
		owned := make([]int, shards)
		for _, owner := range shard.DefaultRoutingTable(shards).Owners {
			owned[owner]++
		}
		if least, most := slices.Min(owned), slices.Max(owned); most-least > 1 {
			t.Errorf("the default table gives %d shards between %d and %d buckets", shards, least, most)
		}
	}
	if _, err := shard.NewCluster(nil, shard.DefaultRoutingTable(0)); err == nil {
		t.Error("a cluster without shards is made")
	}
	if _, err := shard.NewCluster([]shard.Store{nil}, shard.DefaultRoutingTable(2)); err == nil {
		t.Error("a cluster is made whose table names a shard too many")
	}
}

// TestRoutingIsByTable moves one bucket and looks where the name goes.
func TestRoutingIsByTable(t *testing.T) {
	t.Parallel()
	stores := []shard.Store{&fakeStore{}, &fakeStore{}}
	table := shard.DefaultRoutingTable(2)
	home := table.Owners[shard.Bucket("love")]
	table.Owners[shard.Bucket("love")], table.Version = 1-home, 2
	cluster, err := shard.NewCluster(stores, table)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := cluster.Lookup(t.Context(), "love"); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Stats()[1-home].Requests; got != 1 {
		t.Errorf("the new owner of the bucket got %d requests, want 1", got)
	}
}

func TestSeed(t *testing.T) {
	t.Parallel()
	cluster := embedded(t, 4)
	const n = 20_000
	for _, want := range []int64{n, 0} {
		if added, err := cluster.Seed(t.Context(), names(n)); added != want || err != nil {
			t.Fatalf("Seed = %d, %v, want %d, nil", added, err, want)
		}
	}
	for _, s := range cluster.Stats() {
		if s.Requests != 0 || s.TopKeys.Total != 0 {
			t.Errorf("%s counts the seed as traffic: %+v", s.Shard, s)
		}
	}
	total := 0
	for i := range cluster.Len() {
		err := cluster.Store(i).Names(t.Context(), func(name string) error {
			if total++; cluster.Owner(name) != i {
				return fmt.Errorf("%q is on shard %d but belongs to shard %d", name, i, cluster.Owner(name))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if total != n {
		t.Errorf("the shards hold %d names, want %d", total, n)
	}
	row, found, err := cluster.Lookup(t.Context(), load.Name(777))
	if want := (shard.Row{Name: load.Name(777), UserID: 777, CreatedAt: epoch, State: name.Claimed}); row != want || !found || err != nil {
		t.Errorf("Lookup = %v, %t, %v, want %v", row, found, err, want)
	}
}

func TestSeedEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	cluster, err := shard.NewCluster([]shard.Store{&fakeStore{}, &fakeStore{err: full}}, shard.DefaultRoutingTable(2))
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	endless := func(yield func(shard.Row) bool) {
		for yield(shard.Row{Name: load.Name(taken)}) {
			taken++
		}
	}
	if _, err := cluster.Seed(t.Context(), endless); !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "shard1: ") {
		t.Errorf("Seed = %v, want the error of shard1", err)
	}
}

func TestSeedEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := embedded(t, 2).Seed(ctx, names(100_000)); !errors.Is(err, context.Canceled) {
		t.Errorf("Seed with an ended context = %v", err)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	cluster := embedded(t, 2)
	hot := nameOn(cluster, 1)
	for i := range 3 { // the first wins, the others find the name taken, which is no error
		won, err := cluster.Claim(t.Context(), shard.Claim{Name: hot, UserID: int64(i), At: epoch})
		if won != (i == 0) || err != nil {
			t.Fatalf("Claim = %t, %v", won, err)
		}
	}
	for range 4 {
		if _, _, err := cluster.Lookup(t.Context(), hot); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := cluster.Lookup(t.Context(), nameOn(cluster, 0)); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := cluster.Lookup(ended, hot); err == nil {
		t.Fatal("Lookup with an ended context gives no error")
	}

	stats := cluster.Stats()
	s := stats[1]
	if len(stats) != 2 || stats[0].Shard != "shard0" || s.Shard != "shard1" || s.Address != "" {
		t.Errorf("stats are of %v", stats)
	}
	if stats[0].Requests != 1 || s.Requests != 8 || s.Errors != 1 {
		t.Errorf("shard0 has %d requests, shard1 %d with %d errors, want 1, 8, 1", stats[0].Requests, s.Requests, s.Errors)
	}
	if s.Busy <= 0 || s.Busy > time.Minute {
		t.Errorf("shard1 was busy for %v", s.Busy)
	}
	if want := []shard.KeyCount{{Key: hot, Count: 8}}; !slices.Equal(s.TopKeys.Keys, want) || s.TopKeys.Total != 8 {
		t.Errorf("top keys are %+v, want %v of 8", s.TopKeys, want)
	}
}

// TestTopKeysAreBounded asks for more names than are told.
func TestTopKeysAreBounded(t *testing.T) {
	t.Parallel()
	cluster, err := shard.NewCluster([]shard.Store{&fakeStore{}}, shard.DefaultRoutingTable(1))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		for range 1 + 10*(i%2500/2499) { // the 2500th of each half is hot
			if _, _, err := cluster.Lookup(t.Context(), load.Name(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys := cluster.Stats()[0].TopKeys.Keys
	if len(keys) != 20 {
		t.Fatalf("%d keys are told, want 20", len(keys))
	}
	for _, i := range []int{2499, 4999} {
		if !slices.ContainsFunc(keys[:2], func(k shard.KeyCount) bool { return k.Key == load.Name(i) && k.Count-k.Error >= 11 }) {
			t.Errorf("the hot %s is not among the first two: %v", load.Name(i), keys)
		}
	}
}

// TestHangingCallsAreSeen looks at a shard that does not answer while it does not.
func TestHangingCallsAreSeen(t *testing.T) {
	t.Parallel()
	store := &fakeStore{hang: true}
	cluster, err := shard.NewCluster([]shard.Store{store}, shard.DefaultRoutingTable(1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, _, err := cluster.Lookup(ctx, "love")
		done <- err
	}()
	eventually(t, func() bool { s := cluster.Stats()[0]; return s.Requests == 1 && s.TopKeys.Total == 1 })
	if s := cluster.Stats()[0]; s.Errors != 0 {
		t.Errorf("while a call hangs: %d errors, want none", s.Errors)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Lookup = %v", err)
	}
	if s := cluster.Stats()[0]; s.Errors != 1 || s.Busy <= 0 {
		t.Errorf("after the call has failed: %d errors, busy %v", s.Errors, s.Busy)
	}
}

// fakeStore answers every call with err, or not before the context ends.
type fakeStore struct {
	shard.Store
	err  error
	hang bool
}

func (f *fakeStore) Lookup(ctx context.Context, _ string) (shard.Row, bool, error) {
	if f.hang {
		<-ctx.Done()
		return shard.Row{}, false, ctx.Err()
	}
	return shard.Row{}, false, f.err
}

func (f *fakeStore) Load(_ context.Context, r []shard.Row) (int64, error) {
	return int64(len(r)), f.err
}

func (f *fakeStore) Pool() shard.PoolStats { return shard.PoolStats{} }
func (f *fakeStore) Address() string       { return "" }

func BenchmarkSeed(b *testing.B) {
	for b.Loop() {
		if _, err := embedded(b, 4).Seed(b.Context(), names(20_000)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEmbedded(b *testing.B) {
	cluster := embedded(b, 4)
	if _, err := cluster.Seed(b.Context(), names(20_000)); err != nil {
		b.Fatal(err)
	}
	b.Run("lookup", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				if _, _, err := cluster.Lookup(b.Context(), load.Name(i%40_000)); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("insert", func(b *testing.B) {
		i := 100_000
		for b.Loop() {
			if _, err := cluster.Claim(b.Context(), shard.Claim{Name: load.Name(i), UserID: int64(i), At: epoch}); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}
