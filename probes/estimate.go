package probes

import (
	"math"
	"slices"
)

// z95 is the 0.975 quantile of the standard normal distribution.
const z95 = 1.959963984540054

// Wilson returns the 95 % score interval of a proportion of which hits out of
// n trials were seen (E. B. Wilson, "Probable inference, the law of succession,
// and statistical inference", JASA 22, 1927): it stays within [0, 1] and holds
// its level for the rates near 0 that a Bloom filter has, where the normal
// approximation fails. With n = 0 nothing is known: [0, 1].
func Wilson(hits, n int) Interval {
	if n <= 0 {
		return Interval{Low: 0, High: 1}
	}
	p, size := float64(hits)/float64(n), float64(n)
	centre := p + z95*z95/(2*size)
	half := z95 * math.Sqrt(p*(1-p)/size+z95*z95/(4*size*size))
	scale := 1 + z95*z95/size
	iv := Interval{Low: max(0, (centre-half)/scale), High: min(1, (centre+half)/scale)}
	// At the ends the bound is exact; rounding must not move it off the estimate.
	if hits <= 0 {
		iv.Low = 0
	}
	if hits >= n {
		iv.High = 1
	}
	return iv
}

// Median returns the middle value of v, the mean of the two middle ones where
// their number is even, and an unknown number for none. v is not changed.
func Median(v []float64) Number {
	if len(v) == 0 {
		return Unknown("no values to take a median of")
	}
	s := slices.Sorted(slices.Values(v))
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return Known(s[mid])
	}
	return Known(s[mid-1] + (s[mid]-s[mid-1])/2)
}
