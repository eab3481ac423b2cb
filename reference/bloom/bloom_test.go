package bloom_test

import (
	"fmt"
	"math"
	"strings"
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
	bad(1000, math.Inf(1), "between 0 and 1")
	bad(1000, 1e-300, "hashes, at most")
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
