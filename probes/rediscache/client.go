package rediscache

import (
	"context"
	"errors"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// minLookups is how many look-ups the service's hit ratio needs: with 100 its
// standard error is at most 5 %.
const minLookups = 100

// clientSample is what the service says about Redis at one moment.
type clientSample struct {
	doc    source.RedisClient
	sample source.Sample
	took   time.Duration
	err    error
}

func (p *probe) readClient(ctx context.Context, rec *probes.Recorder) clientSample {
	if p.api == nil {
		return clientSample{err: errors.New("no checker is configured: set its URL to see the service's own view of Redis")}
	}
	var s clientSample
	s.took, s.err = p.api.Read(ctx, rec.Cost(), source.PathRedis, source.Fresh, &s.doc)
	s.sample = source.Sample{Taken: time.Now(), Now: s.doc.Now, Epoch: s.doc.StartedAt.Text()}
	return s
}

// recordClient records the service's view: gauges from the last sample,
// everything else from what changed over the span.
func recordClient(rec *probes.Recorder, a, b clientSample, span source.Span) {
	if b.err != nil {
		rec.Miss(b.err.Error(), names(clientFacts())...)
		return
	}
	first, last := a.doc, b.doc
	taken := span.Delta(first.Hits.Taken, last.Hits.Taken)
	free := span.Delta(first.Hits.Free, last.Hits.Free)
	hits := taken.Plus(free)
	answered := hits.Plus(span.Delta(first.Misses, last.Misses))
	rec.Set("hit_ratio", hits.Over(answered.AtLeast(minLookups, "fewer than 100 look-ups in the window"), ""))
	rec.Set("lookups_rate", span.Rate(first.Lookups, last.Lookups))

	rec.Set(answerFact, probes.Known(max(a.took, b.took).Seconds()))

	commands := span.Delta(first.Commands, last.Commands)
	failed := span.Delta(first.Errors, last.Errors)
	const idle = "no commands in the window"
	rec.Set("command_rate", span.PerSecond(commands))
	rec.Set("command_seconds", span.Delta(first.BusySeconds, last.BusySeconds).Over(commands, idle))
	rec.Set("errors_rate", span.PerSecond(failed))
	// The two counters are not read in one instant: a command too many must
	// not make a ratio above 1.
	rec.Set("error_ratio", failed.Over(commands, idle).Clamp(0, 1))
	recordPool(rec, first.Pool, last.Pool, span)
}

func recordPool(rec *probes.Recorder, first, last source.Pool, span source.Span) {
	first, last = first.Sane(), last.Sane()
	const empty = "the pool has no size"
	rec.Set("pool_size", last.Size)
	rec.Set("pool_in_use", last.InUse)
	rec.Set("pool_idle", last.Idle)
	rec.Set("pool_pending", last.Pending)
	rec.Set("pool_in_use_ratio", last.InUse.Over(last.Size, empty))
	rec.Set("pool_pending_min", span.Lower(first.Pending, last.Pending))
	rec.Set("pool_idle_max", span.Higher(first.Idle, last.Idle))
	waits := span.Delta(first.Waits, last.Waits)
	rec.Set("pool_waits_rate", span.PerSecond(waits))
	rec.Set("pool_wait_seconds", span.Delta(first.WaitSeconds, last.WaitSeconds).Over(waits, "").
		MootIf(waits.Or(1) == 0, "no wait in the window ended with a connection"))
	rec.Set("pool_timeouts_rate", span.Rate(first.Timeouts, last.Timeouts))
	rec.Set("pool_dials_rate", span.Rate(first.Dials, last.Dials))
	acquires := span.Rate(first.Acquires, last.Acquires)
	rec.Set("pool_acquires_rate", acquires)
	rec.Set("pool_turnover_rate", acquires.Over(last.Size, empty))
	rec.Set("pool_hold_seconds", held(first, last).Over(acquires, "").
		MootIf(acquires.Or(1) == 0, "no connection was taken in the window"))
}

// held is the mean number of connections in use, L in Little's law L = λ·W
// (J. D. C. Little, "A proof for the queuing formula L = λW", Operations
// Research 9, 1961). In a pool that is full at both ends of the window it is
// the size: those that are being dialled are in nobody's use and held all the
// same.
func held(first, last source.Pool) probes.Number {
	idle, known := first.Idle.Higher(last.Idle).Get()
	if known && idle == 0 && first.Pending.Lower(last.Pending).Or(0) >= 1 {
		return last.Size
	}
	return first.InUse.Plus(last.InUse).Over(probes.Known(2), "")
}
