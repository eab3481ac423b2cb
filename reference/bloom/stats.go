package bloom

import (
	"math"
	"sync/atomic"
	"time"
)

// Stats describe the current generation.
type Stats struct {
	Bits    uint64 // m
	Hashes  uint64 // k
	Params  Params
	SetBits uint64
	// Added counts Add calls by source, indexed by Source.
	Added [sources]uint64
	// Registrations counts committed registrations since BuiltAt.
	Registrations uint64
	Generation    uint64
	// BuiltAt is when the generation was opened for writing.
	BuiltAt time.Time
	// Growth says how fast the filter fills.
	Growth Growth
}

// NamesAdded returns the sum over all sources.
func (s Stats) NamesAdded() uint64 {
	var n uint64
	for _, a := range s.Added {
		n += a
	}
	return n
}

// Stats reads the current generation. It counts all bits, without stopping
// anybody.
func (f *Filter) Stats() Stats {
	g := f.current.Load()
	s := Stats{
		Bits: g.m, Hashes: g.k, Params: g.params, SetBits: g.setBits(),
		Registrations: g.registrations.Load(), Generation: g.number, BuiltAt: g.builtAt,
	}
	for i := range g.added {
		s.Added[i] = g.added[i].Load()
	}
	s.Growth = f.growth.read(time.Now(), s.names(), float64(g.params.Capacity))
	return s
}

// names estimates how many different names the filter holds from its set bits,
// n = −(m/k) ln(1 − X/m) (S. J. Swamidass, P. Baldi, "Mathematical correction
// for fingerprint similarity measures to improve chemical retrieval", J. Chem.
// Inf. Model. 47, 2007); infinite when every bit is set.
func (s Stats) names() float64 {
	m := float64(s.Bits)
	return -m / float64(s.Hashes) * math.Log1p(-float64(s.SetBits)/m)
}

// The history of additions: one count for each of the last 60 minutes.
const (
	growthSlot  = time.Minute
	growthSlots = 60
	// growthMinimum is how many additions a forecast needs. The error of a rate
	// from N independent events is about 1/√N of it: a third.
	growthMinimum = 10
)

// Growth is how fast names that were not in it get into a filter, whoever adds
// them, the build excepted.
type Growth struct {
	// PerSecond is the number of new names of up to the last hour, divided by
	// that time. It is known once the filter has been watched for a minute.
	PerSecond float64
	Known     bool
	// TimeToFull is (Capacity − n) / PerSecond, with n estimated from the set
	// bits; 0 when the filter is full. It is known when the filter is full, or
	// when at least 10 names came within the time watched.
	TimeToFull      time.Duration
	TimeToFullKnown bool
}

// growth counts additions by minute. It takes no lock: an addition at the turn
// of a slot may be lost from the history, which is an estimate.
type growth struct {
	since time.Time // when the history began
	slots [growthSlots]growthCount
}

type growthCount struct {
	minute atomic.Int64 // since the Unix epoch
	names  atomic.Int64
}

func (g *growth) count(now time.Time) {
	minute := now.Unix() / int64(growthSlot/time.Second)
	s := &g.slots[minute%growthSlots]
	if old := s.minute.Load(); old != minute && s.minute.CompareAndSwap(old, minute) {
		s.names.Store(0)
	}
	s.names.Add(1)
}

// read sums up the minutes that are over and the running one.
func (g *growth) read(now time.Time, names, capacity float64) Growth {
	var out Growth
	minute := now.Unix() / int64(growthSlot/time.Second)
	oldest := time.Unix((minute-growthSlots+1)*int64(growthSlot/time.Second), 0)
	if g.since.After(oldest) {
		oldest = g.since
	}
	sum := int64(0)
	for i := range g.slots {
		if at := g.slots[i].minute.Load(); at > minute-growthSlots && at <= minute {
			sum += g.slots[i].names.Load()
		}
	}
	if watched := now.Sub(oldest); watched >= growthSlot {
		out.PerSecond, out.Known = float64(sum)/watched.Seconds(), true
	}
	switch {
	case names >= capacity:
		out.TimeToFullKnown = true
	case out.Known && sum >= growthMinimum:
		seconds := (capacity - names) / out.PerSecond
		out.TimeToFull, out.TimeToFullKnown = duration(seconds), true
	}
	return out
}

// duration converts seconds; what is too long for a Duration, 292
// years, becomes the longest one.
func duration(seconds float64) time.Duration {
	if seconds >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds * float64(time.Second))
}
