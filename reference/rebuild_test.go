package reference_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/shard"
)

// watched is a shard that says when its names are about to be read, and when
// they have been, for the first time.
type watched struct {
	shard.Store

	first         *sync.Once
	before, after func()
}

func (w watched) Names(ctx context.Context, yield func(string) error) error {
	before, after := func() {}, func() {}
	w.first.Do(func() { before, after = w.before, w.after })
	before()
	defer after()
	return w.Store.Names(ctx, yield)
}

// TestRebuildWhileBucketsMove moves and splits a bucket while the filter is
// rebuilt, in such a way that the names that move are read at neither place: at
// the new one before they come, at the old one after they have gone.
func TestRebuildWhileBucketsMove(t *testing.T) {
	t.Parallel()
	const bucket, old, other = 5, 0, 1 // the first half of the buckets is the first shard's
	for name, owners := range map[string][]int{"move": {other}, "split": {other, old, other, old}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, moved := make(chan struct{}), make(chan struct{})
			nothing := func() {}
			stores := []shard.Store{
				watched{openSQLite(t), new(sync.Once), func() { <-moved }, nothing},
				watched{openSQLite(t), new(sync.Once), nothing, func() { close(read) }},
			}
			cluster, err := shard.OpenCluster(t.Context(), stores, shard.DefaultRoutingTable(len(stores)))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := 0; len(names) < 60; i++ {
				n := fmt.Sprintf("name%d", i)
				if i >= 20 && shard.Bucket(n) != bucket {
					continue
				}
				names = append(names, n)
				if won, err := cluster.Claim(t.Context(), shard.Claim{Name: n, UserID: int64(i) + 1, At: time.Now().Add(-time.Hour)}); !won || err != nil {
					t.Fatalf("Claim(%s) = %v, %v", n, won, err)
				}
			}
			filter, err := bloom.New(bloom.Params{Capacity: 1000, Rate: 1e-4})
			if err != nil {
				t.Fatal(err)
			}
			s := reference.New(reference.Layers{Filter: filter, Shards: cluster, Failed: func(f reference.Failure) { t.Errorf("failed: %v", f.Err) }})
			rebuilt := make(chan error, 1)
			go func() { rebuilt <- s.RebuildFilter(t.Context(), filter.Params()) }()
			<-read
			if done, err := cluster.Reshard(t.Context(), bucket, owners...); err != nil || done.Deleted == 0 {
				t.Errorf("Reshard = %+v, %v, want names that moved", done, err)
			}
			close(moved)
			if err := <-rebuilt; err != nil {
				t.Fatal(err)
			}
			if _, maybe := filter.TestAll(names); len(maybe) != len(names) || filter.Generation() != 1 {
				t.Errorf("the filter of generation %d has %d of %d names", filter.Generation(), len(maybe), len(names))
			}
		})
	}
}

func openSQLite(t *testing.T) shard.Store {
	t.Helper()
	s, err := shard.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "shard"), shard.SQLiteOptions{PoolSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
