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
	longest, fullest := loads[0].queue, loads[0].used
	worst := loads[0]
	for i, l := range loads {
		pending = pending.Plus(l.queue)
		timeouts = timeouts.Plus(span.Delta(l.first.Pool.Timeouts, l.last.Pool.Timeouts))
		if i == 0 {
			continue
		}
		if worse(l, worst) {
			worst = l
		}
		longest = longest.Higher(l.queue)
		fullest = fullest.Higher(l.used)
	}
	rec.Set("pool_in_use_ratio", fullest)
	rec.Set("pool_pending", pending)
	rec.Set("pool_pending_worst", longest)
	rec.Set("pool_timeouts_rate", span.PerSecond(timeouts))
	rec.Set("pool_turnover_rate", turnover(worst, span))
	waited := span.Delta(worst.first.Pool.WaitSeconds, worst.last.Pool.WaitSeconds)
	waits := span.Delta(worst.first.Pool.Waits, worst.last.Pool.Waits)
	rec.Set("pool_wait_seconds", waited.Over(waits, "").MootIf(waits.Or(1) == 0, "no request waited for a connection"))
	recordStuck(rec, loads, span)
}

// turnover is how often a second a connection of the pool changes hands.
func turnover(l load, span source.Span) probes.Number {
	return span.Rate(l.first.Pool.Acquires, l.last.Pool.Acquires).Over(l.last.Pool.Size, "the pool has no size")
}

// stuckTurnover is below what rate a connection that is in use is not coming back:
// one look-up in ten seconds, where the slowest takes a second.
const stuckTurnover = 0.1

// isFull is 1 for a pool that is used up while requests wait, at both ends of the
// window, and 0 for one that is not.
func isFull(l load) probes.Number {
	used, waiting := l.used, l.queue
	switch {
	case used.Or(1) < 1 || waiting.Or(1) == 0:
		return probes.Known(0)
	case used.Why() != "":
		return used
	}
	return waiting.Clamp(1, 1)
}

// recordStuck records the pools that are used up, names them, and counts those whose
// connections do not change hands.
func recordStuck(rec *probes.Recorder, loads []load, span source.Span) {
	full, stuck := probes.Known(0), probes.Known(0)
	for _, l := range loads {
		is := isFull(l)
		full = full.Plus(is)
		if v, ok := is.Get(); ok && v == 0 {
			continue
		}
		rate := turnover(l, span)
		keeps := is.Minus(probes.Known(1)) // none that is stuck, if it is full
		if rate.Or(stuckTurnover) < stuckTurnover {
			keeps = is
		}
		stuck = stuck.Plus(keeps.If(rate.Why() == "", rate.Why()))
		if is.Why() == "" {
			rec.Row(probes.Row{
				Table: tableFull, Key: clip(l.last.Shard), Value: l.queue.Or(0),
				Note: "wait in both samples, and no connection of its pool is free",
			})
		}
	}
	rec.Set("pools_full", full)
	rec.Set("pools_stuck", stuck)
}

// recordReplicas records the look-ups that go to replicas.
func recordReplicas(rec *probes.Recorder, loads []load, span source.Span) {
	lookups := probes.Known(0)
	for _, l := range loads {
		if l.last.Replica == nil {
			continue
		}
		before := probes.Unknown("the list of replicas changed between the samples")
		if l.first.Replica != nil {
			before = l.first.Replica.Lookups
		}
		lookups = lookups.Plus(span.Delta(before, l.last.Replica.Lookups))
	}
	rec.Set("replica_lookups_rate", span.PerSecond(lookups))
}

// worse orders pools by how full they are, then by how many wait.
func worse(a, b load) bool {
	x, y := a.used.Or(-1), b.used.Or(-1)
	if x != y {
		return x > y
	}
	return a.queue.Or(-1) > b.queue.Or(-1)
}
