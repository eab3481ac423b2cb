package traffic

import (
	"math"
	"math/bits"
)

// The registers of a distinct. 4096 of them have a standard error of
// 1.04/√4096 = 1.6 %.
const (
	indexBits = 12
	registers = 1 << indexBits
)

// distinct estimates how many different hashes it was given, in 4 KiB:
// HyperLogLog (Flajolet, Fusy, Gandouet, Meunier, AofA 2007). It is not safe for
// concurrent use.
type distinct struct{ rank [registers]uint8 }

func (d *distinct) add(hash uint64) {
	r := &d.rank[hash>>(64-indexBits)]
	// The one bit bounds the rank where the rest of the hash is 0.
	*r = max(*r, uint8(bits.LeadingZeros64(hash<<indexBits|1<<(indexBits-1))+1))
}

func (d *distinct) reset() { clear(d.rank[:]) }

// estimate tells how many different hashes the given ones together have seen.
func estimate(all ...*distinct) float64 {
	sum, empty := 0.0, 0
	for i := range registers {
		rank := uint8(0)
		for _, d := range all {
			rank = max(rank, d.rank[i])
		}
		if rank == 0 {
			empty++
		}
		sum += math.Ldexp(1, -int(rank))
	}
	const m = registers
	raw := 0.7213 / (1 + 1.079/m) * m * m / sum
	if raw <= 2.5*m && empty > 0 {
		return m * math.Log(float64(m)/float64(empty)) // linear counting is better for few
	}
	return raw
}
