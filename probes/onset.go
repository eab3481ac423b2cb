package probes

import (
	"math"
	"slices"
	"time"
)

// Onset says since when a fact has had its level, and what it was before, as far
// as it was recorded. It is later than the change by up to one sample.
type Onset struct {
	At     time.Time `json:"at"`
	Before float64   `json:"before"`
	After  float64   `json:"after"`
}

// When a fact counts as moved. The figures are those of a shift chart (W. A.
// Shewhart, "Economic control of quality of manufactured product", 1931), with
// four deviations in the place of three because some hundred facts are looked at.
const (
	// minBefore is how many samples tell a level to compare with: a minute.
	minBefore = 6
	// minAfter is how many samples a new level needs: one alone is an outlier.
	minAfter = 2
	// minNoise is how many standard deviations a change must exceed.
	minNoise = 4
	// minEffect is how much a change must be of the larger of both levels.
	minEffect = 0.2
)

// change is a change of level between two samples.
type change struct {
	at            int // the first sample of the new level
	before, after float64
}

// lastChange finds the change of level that led to the last value. The series is
// split in two where the squared deviations from the two means are least (D. V.
// Hinkley, "Inference about the change-point in a sequence of random variables",
// Biometrika 57, 1970), and what comes after it again (J. Bai, "Estimating
// multiple breaks one at a time", Econometric Theory 13, 1997), as long as there
// is a change of at least half the size of the largest so far. The medians have to
// differ like the means, so that an outlier is no level.
func lastChange(values []float64) (last change, found bool) {
	from, largest := 0, 0.0
	noise := noiseOf(values)
	for {
		part := values[from:]
		k := split(part)
		if k == 0 || !differ(mean(part[:k]), mean(part[k:]), noise, largest) {
			return last, found
		}
		if before, after := median(part[:k]), median(part[k:]); differ(before, after, noise, largest) {
			k = departure(part, k, before, noise)
			last, found = change{at: from + k, before: before, after: after}, true
			largest = max(largest, math.Abs(after-before))
		}
		from += k
	}
}

// differ reports whether two levels are as far apart as a change demands.
func differ(before, after, noise, largest float64) bool {
	step := math.Abs(after - before)
	return step > minNoise*noise && step >= minEffect*max(math.Abs(before), math.Abs(after)) && step >= largest/2
}

// noiseOf returns the standard deviation of a series around its levels, whatever
// these are, from the median of the differences between neighbours.
func noiseOf(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	differences := make([]float64, len(values)-1)
	for i := range differences {
		differences[i] = math.Abs(values[i+1] - values[i])
	}
	return median(differences) * toDeviation / math.Sqrt2
}

// toDeviation makes a median deviation a standard deviation where the noise is
// normal.
const toDeviation = 1.4826

// split returns where the values are best split in two levels, 0 if there are too
// few of them or a straight line fits them as well: a drift is no change.
func split(values []float64) (at int) {
	n := len(values)
	if n < minBefore+minAfter {
		return 0
	}
	// Relative to the first value, so that squares of large numbers do not swallow
	// the differences; and to the middle, as the line is.
	var sum, squares, along float64
	middle := float64(n-1) / 2
	for i, v := range values {
		d := v - values[0]
		sum += d
		squares += d * d
		along += d * (float64(i) - middle)
	}
	size := float64(n)
	spread := squares - sum*sum/size
	least := spread - along*along*12/(size*(size*size-1)) // what a line leaves
	left := 0.0
	for k := 1; k <= n-minAfter; k++ {
		left += values[k-1] - values[0]
		right := sum - left
		if rest := squares - left*left/float64(k) - right*right/(size-float64(k)); k >= minBefore && rest < least {
			at, least = k, rest
		}
	}
	return at
}

// departure walks back from a split to the first sample that has left the level
// before: where a fact takes some samples to rise, the best split lies midway.
func departure(values []float64, at int, before, noise float64) int {
	for at > minBefore && differ(before, values[at-1], noise, 0) {
		at--
	}
	return at
}

// mean is computed from means of parts, so that it stays finite.
func mean(values []float64) (m float64) {
	for i, v := range values {
		m += (v - m) / float64(i+1)
	}
	return m
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[(len(s)-1)/2]
}
