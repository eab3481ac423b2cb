package bloom_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	bits "github.com/bits-and-blooms/bloom/v3"

	"github.com/regpath/diagnose/reference/bloom"
)

func newFilter(tb testing.TB, capacity uint64) *bloom.Filter {
	tb.Helper()
	f, err := bloom.New(bloom.Params{Capacity: capacity, Rate: 0.01})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func TestSize(t *testing.T) {
	t.Parallel()
	f := func(n uint64, p float64, wantM, wantK uint) {
		t.Helper()
		m, k, err := bloom.Params{Capacity: n, Rate: p}.Size()
		if err != nil || m != wantM || k != wantK {
			t.Errorf("Size(%d, %g) = %d, %d, %v, want %d, %d", n, p, m, k, err, wantM, wantK)
		}
	}
	f(100_000, 0.01, 958_506, 7)
	f(1_000_000_000, 0.01, 9_585_058_378, 7)
	f(1, 0.5, 2, 2)
	f(1, 0.999, 1, 1)

	bad := func(n uint64, p float64, want string) {
		t.Helper()
		_, _, err := bloom.Params{Capacity: n, Rate: p}.Size()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Size(%d, %g) error = %v, want %q in it", n, p, err, want)
		}
		if _, err := bloom.New(bloom.Params{Capacity: n, Rate: p}); err == nil {
			t.Errorf("New(%d, %g) succeeded", n, p)
		}
	}
	bad(0, 0.01, "must be positive")
	bad(1000, 0, "between 0 and 1")
	bad(1000, 1, "between 0 and 1")
	bad(1000, 1.5, "between 0 and 1")
	bad(1000, -0.1, "between 0 and 1")
	bad(1000, math.NaN(), "between 0 and 1")
	bad(math.MaxUint64, 0.01, "bits, at most")
	bad(1000, math.SmallestNonzeroFloat64*0, "between 0 and 1")
}

// TestSameBitsAsLibrary pins that the filter is bits-and-blooms, bit for bit.
func TestSameBitsAsLibrary(t *testing.T) {
	t.Parallel()
	f, lib := newFilter(t, 1000), bits.NewWithEstimates(1000, 0.01)
	for i := range 1000 {
		n := fmt.Sprintf("%s%d", strings.Repeat("x", i%60), i)
		f.Add(n, bloom.Build)
		lib.AddString(n)
	}
	if got, want := f.Stats().SetBits, uint64(lib.BitSet().Count()); got != want {
		t.Errorf("set bits = %d, want %d", got, want)
	}
	for i := range 20_000 {
		n := fmt.Sprintf("other%d", i)
		if got, want := f.Test(n), lib.TestString(n); got != want {
			t.Fatalf("Test(%q) = %v, want %v", n, got, want)
		}
	}
}

func TestRateAtCapacity(t *testing.T) {
	t.Parallel()
	f := newFilter(t, 20_000)
	for i := range 20_000 {
		f.Add(fmt.Sprintf("user%d", i), bloom.Build)
	}
	s := f.Stats()
	predicted := math.Pow(float64(s.SetBits)/float64(s.Bits), float64(s.Hashes))
	const asked = 100_000
	names := make([]string, asked)
	for i := range names {
		names[i] = fmt.Sprintf("zz0canary%d", i)
	}
	_, maybe := f.TestAll(names)
	measured := float64(len(maybe)) / asked
	if predicted > 0.0105 || measured > 0.0115 || measured < 0.0085 {
		t.Errorf("rate at capacity: fill^k %.4f, measured %.4f, want about 0.01", predicted, measured)
	}
}

// TestNoFalseNegative adds from many goroutines while the filter is rebuilt
// again and again, and then misses nothing.
func TestNoFalseNegative(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 3000
	f := newFilter(t, writers*each)
	var mu sync.Mutex
	var committed []string // stands for the shards
	fill := func(_ context.Context, add func(string)) error {
		mu.Lock()
		snapshot := append([]string(nil), committed...)
		mu.Unlock()
		for _, n := range snapshot {
			add(n)
		}
		return nil
	}
	var adding sync.WaitGroup
	for w := range writers {
		adding.Go(func() {
			for i := range each {
				n := fmt.Sprintf("w%d-%d", w, i)
				mu.Lock()
				committed = append(committed, n)
				mu.Unlock()
				f.CountRegistration()
				f.Add(n, bloom.Register)
				if !f.Test(n) {
					t.Errorf("Test(%q) = false right after Add", n)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { adding.Wait(); close(done) }()
	rebuilds := 0
	for running := true; running; rebuilds++ {
		select {
		case <-done:
			running = false
		default:
		}
		if err := f.Rebuild(t.Context(), f.Params(), fill); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range committed {
		if !f.Test(n) {
			t.Errorf("Test(%q) = false after %d rebuilds", n, rebuilds)
		}
	}
	if got, want := f.Stats().Generation, uint64(rebuilds); got != want {
		t.Errorf("generation = %d, want %d", got, want)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	f := newFilter(t, 100)
	f.Add("old", bloom.Query)
	err := f.Rebuild(t.Context(), bloom.Params{Capacity: 200, Rate: 0.02}, func(_ context.Context, add func(string)) error {
		add("one")
		add("two")
		f.Add("three", bloom.Register) // registered while the rebuild goes on
		f.CountRegistration()
		if f.Test("one") {
			t.Error(`Test("one") = true before the switch`)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Add("asked", bloom.Query)
	s := f.Stats()
	if s.Generation != 1 || s.Params.Capacity != 200 || s.Params.Rate != 0.02 {
		t.Errorf("Stats() = %+v, want generation 1 for 200 names at 0.02", s)
	}
	if got, want := fmt.Sprint(s.Added, s.NamesAdded(), s.Registrations), "[2 1 1] 4 1"; got != want {
		t.Errorf("added, sum, registrations = %s, want %s", got, want)
	}
	if f.Test("old") || !f.Test("one") || !f.Test("three") || !f.Test("asked") {
		t.Error("the new generation holds something else than what was built, registered and asked")
	}
}

func TestFailedRebuildKeepsOld(t *testing.T) {
	t.Parallel()
	f := newFilter(t, 100)
	f.Add("kept", bloom.Build)
	broken := errors.New("shard1: timeout")
	err := f.Rebuild(t.Context(), f.Params(), func(_ context.Context, add func(string)) error {
		add("half")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("Rebuild() = %v, want %v", err, broken)
	}
	if err := f.Rebuild(t.Context(), bloom.Params{}, nil); err == nil {
		t.Error("Rebuild with impossible parameters succeeded")
	}
	f.Add("later", bloom.Register)
	if s := f.Stats(); s.Generation != 0 || s.NamesAdded() != 2 || !f.Test("kept") || f.Test("half") {
		t.Errorf("after failed rebuilds: %+v, kept %v, half %v", s, f.Test("kept"), f.Test("half"))
	}
}

func BenchmarkTest(b *testing.B) {
	const n = 100_000
	f, lib := newFilter(b, n), bits.NewWithEstimates(n, 0.01)
	names := make([]string, 4096)
	for i := range names {
		names[i] = fmt.Sprintf("user%07d", i)
		if i%2 == 0 {
			f.Add(names[i], bloom.Build)
			lib.AddString(names[i])
		}
	}
	b.Run("atomic", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				f.Test(names[i&4095])
			}
		})
	})
	b.Run("rwmutex", func(b *testing.B) {
		var mu sync.RWMutex
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				mu.RLock()
				lib.TestString(names[i&4095])
				mu.RUnlock()
			}
		})
	})
}
