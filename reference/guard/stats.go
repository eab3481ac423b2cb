package guard

import (
	"sync/atomic"
	"time"
)

// latencyBounds are the upper bounds of the latency histogram, in nanoseconds:
// local checks fall into the first two, remote ones into the rest.
const latencyBounds = 8

func bounds() [latencyBounds]time.Duration {
	return [...]time.Duration{
		time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond,
		5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	}
}

// Stats is what one check did since the start. All figures are counters.
type Stats struct {
	Check string
	// Outcomes counts the verdicts, by Outcome.
	Outcomes [outcomes]uint64
	// Errors counts the requests it could not decide; OnError is what became of
	// them.
	Errors  uint64
	OnError Policy
	// Evicted counts the entries in use that a limiter had to give up for lack of
	// room. They are not forgotten, see Options.Entries, but more than a few say
	// that the room is too small.
	Evicted uint64
	// Latency covers all runs of a Remote check, about one in 64 of a Local one.
	Latency Latency
}

// Latency is a histogram.
type Latency struct {
	Le     []time.Duration // upper bounds
	Counts []uint64        // not cumulative; one more than Le, above the last bound
	Sum    time.Duration
}

// Stats returns the figures of all checks, in running order.
func (t *Tree) Stats() []Stats {
	all := make([]Stats, len(t.steps))
	for i, s := range t.steps {
		all[i] = s.counters.read()
		all[i].Check, all[i].OnError = s.Name, s.OnError
		if e, ok := s.Checker.(interface{ evicted() uint64 }); ok {
			all[i].Evicted = e.evicted()
		}
	}
	return all
}

// counters are the live figures of a check.
type counters struct {
	outcomes [outcomes]atomic.Uint64
	errors   atomic.Uint64
	buckets  [latencyBounds + 1]atomic.Uint64
	sum      atomic.Int64
}

func (c *counters) count(v Verdict, err error) {
	if err != nil || v.Outcome >= outcomes {
		c.errors.Add(1)
		return
	}
	c.outcomes[v.Outcome].Add(1)
}

func (c *counters) time(took time.Duration) {
	i := 0
	for _, le := range bounds() {
		if took <= le {
			break
		}
		i++
	}
	c.buckets[i].Add(1)
	c.sum.Add(int64(took))
}

func (c *counters) read() Stats {
	le := bounds()
	s := Stats{Errors: c.errors.Load(), Latency: Latency{Le: le[:], Sum: time.Duration(c.sum.Load())}}
	for i := range c.outcomes {
		s.Outcomes[i] = c.outcomes[i].Load()
	}
	for i := range c.buckets {
		s.Latency.Counts = append(s.Latency.Counts, c.buckets[i].Load())
	}
	return s
}
