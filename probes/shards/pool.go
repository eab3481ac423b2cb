package shards

import (
	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// recordPools records the pools of the shards. Gauges are taken at the lower
// of the samples: a pool that is full or a queue that stands at both ends of
// the window is no passing burst.
func recordPools(rec *probes.Recorder, loads []load, span source.Span) {
	pending, timeouts := probes.Known(0), probes.Known(0)
	longest, fullest := queue(loads[0]), inUse(loads[0])
	worst := loads[0]
	for i, l := range loads {
		pending = pending.Plus(queue(l))
		timeouts = timeouts.Plus(span.Delta(l.first.Pool.Timeouts, l.last.Pool.Timeouts))
		if i == 0 {
			continue
		}
		if worse(l, worst) {
			worst = l
		}
		longest = longest.Higher(queue(l))
		fullest = fullest.Higher(inUse(l))
	}
	rec.Set("pool_in_use_ratio", fullest)
	rec.Set("pool_pending", pending)
	rec.Set("pool_pending_worst", longest)
	rec.Set("pool_timeouts_rate", span.PerSecond(timeouts))
	acquires := span.Rate(worst.first.Pool.Acquires, worst.last.Pool.Acquires)
	rec.Set("pool_turnover_rate", acquires.Over(worst.last.Pool.Size, "the pool has no size"))
}

// worse orders pools by how full they are, then by how many wait.
func worse(a, b load) bool {
	x, y := inUse(a).Or(-1), inUse(b).Or(-1)
	if x != y {
		return x > y
	}
	return queue(a).Or(-1) > queue(b).Or(-1)
}

func queue(l load) probes.Number { return l.first.Pool.Pending.Lower(l.last.Pool.Pending) }

func inUse(l load) probes.Number {
	return l.first.Pool.InUse.Lower(l.last.Pool.InUse).Over(l.last.Pool.Size, "the pool has no size")
}
