package bloom

import (
	"fmt"
	"math"

	"github.com/bits-and-blooms/bloom/v3"
)

// MaxBits bounds the size of a filter: 2^37 bits are 16 GiB, enough for
// 14,000,000,000 names at 1 %.
const MaxBits = 1 << 37

// MaxHashes bounds the hashes of a name: 64 are enough for a rate of 5e-20, and
// each is one cache line to wait for.
const MaxHashes = 64

// Params say what a filter is built for.
type Params struct {
	// Capacity is n, the number of names it is sized for.
	Capacity uint64
	// Rate is p, the false-positive rate it must not exceed with Capacity names
	// in it.
	Rate float64
}

// Size returns the number of bits m = ceil(-n ln p / (ln 2)²) and of hashes
// k = ceil(m/n ln 2) for p. It refuses what the formula has no answer for, and
// what would not fit.
func (p Params) Size() (m, k uint, err error) {
	if p.Capacity == 0 {
		return 0, 0, fmt.Errorf("filter capacity must be positive, got %d", p.Capacity)
	}
	if !(p.Rate > 0 && p.Rate < 1) { // the negation also catches NaN
		return 0, 0, fmt.Errorf("filter target rate must lie between 0 and 1, got %g", p.Rate)
	}
	if bits := -float64(p.Capacity) * math.Log(p.Rate) / (math.Ln2 * math.Ln2); bits > MaxBits {
		return 0, 0, fmt.Errorf("filter for %d names at rate %g needs %.0f bits, at most %d are allowed", p.Capacity, p.Rate, bits, uint64(MaxBits))
	}
	m, k = bloom.EstimateParameters(uint(p.Capacity), p.Rate)
	if k > MaxHashes {
		return 0, 0, fmt.Errorf("filter target rate %g needs %d hashes, at most %d are allowed", p.Rate, k, MaxHashes)
	}
	return max(m, 1), max(k, 1), nil
}
