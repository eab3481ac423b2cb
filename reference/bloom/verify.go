package bloom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Why a new generation is refused.
var (
	// ErrMissing says that the filter lacks a name that exists: a false
	// negative, which must never be.
	ErrMissing = errors.New("filter lacks registered names")
	// ErrRate says that the filter cries "maybe" more often than it was
	// designed to: it is too small for the names there are, or its hash is
	// broken.
	ErrRate = errors.New("filter exceeds its false-positive rate")
)

const (
	// verifyNames is how many existing names are read again: a share q of lost
	// names goes unseen with probability (1−q)^5000, for q = 0.2 % less than
	// 1 in 20,000.
	verifyNames = 5000
	// verifyAge is how old they are at least. A row may become visible a while
	// after the time that is written in it, and clocks of instances differ.
	verifyAge = 5 * time.Second
	// verifyCanaries is how many names are asked for that cannot exist.
	verifyCanaries = 20_000
	// verifyZ makes a one-sided interval that errs once in 1,000,000.
	verifyZ = 4.75
)

// verify holds g against the shards and against its design. A filter that is
// filled for the first time may exceed its rate: what it replaces is empty and
// calls every name free, which is worse.
func (f *Filter) verify(ctx context.Context, g *generation, p Plan, opened time.Time) error {
	if now := f.progress.Load(); now != nil {
		now.verify.Store(true)
	}
	names, err := p.From.Sample(ctx, verifyNames, opened.Add(-verifyAge))
	if err != nil {
		return fmt.Errorf("verify filter generation %d: %w", g.number, err)
	}
	if missing := len(names) - len(g.testAll(names)); missing > 0 {
		return fmt.Errorf("verify filter generation %d: %w: %d of %d", g.number, ErrMissing, missing, len(names))
	}
	if p.AnyRate || f.current.Load().number == 0 {
		return nil
	}
	hits := g.canaries(verifyCanaries)
	if low := wilsonLow(hits, verifyCanaries, verifyZ); low > g.allowed() {
		return fmt.Errorf("verify filter generation %d: %w: %.3g measured, designed for %.3g with %d names",
			g.number, ErrRate, float64(hits)/verifyCanaries, g.params.Rate, g.params.Capacity)
	}
	return nil
}

// canaries asks for n names that no canonical form allows and returns how many
// g takes for members.
func (g *generation) canaries(n int) (hits int) {
	prefix := "\x00" + strconv.FormatUint(g.number, 36) + "\x00"
	for i := range n {
		if g.test(hash(prefix + strconv.Itoa(i))) {
			hits++
		}
	}
	return hits
}

// allowed is the rate that a filter as designed stays below: Rate, plus four
// standard deviations of what the luck of the hashes does to one filter. At
// Capacity half of the m bits are set, with variance (m/2)(1 − (1 + ln 2)/2),
// the classical occupancy problem; k times the relative deviation of the fill,
// 0.554/√m, is that of fill^k. It matters for small filters only; below a
// thousand bits a few names decide, and there is no telling.
func (g *generation) allowed() float64 {
	if g.m < 1000 {
		return 1
	}
	return g.params.Rate * (1 + 4*0.554*float64(g.k)/math.Sqrt(float64(g.m)))
}

// wilsonLow is the lower end of the score interval of a proportion (E. B.
// Wilson, J. Am. Stat. Assoc. 22, 1927).
func wilsonLow(hits, n int, z float64) float64 {
	p, size := float64(hits)/float64(n), float64(n)
	center := p + z*z/(2*size)
	spread := z * math.Sqrt(p*(1-p)/size+z*z/(4*size*size))
	return max(0, (center-spread)/(1+z*z/size))
}
