package bloom

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// Shards is where a filter gets its names from. Every method must return soon
// after ctx has ended.
type Shards interface {
	// All calls add with every name that was committed before the call, from
	// several goroutines if it likes. An error means that names may be missing.
	All(ctx context.Context, add func(name string)) error
	// Since is All for the names that were created at or after the given time.
	// It may add others too.
	Since(ctx context.Context, at time.Time, add func(name string)) error
	// Sample returns up to n names at random, created before the given time.
	Sample(ctx context.Context, n int, before time.Time) ([]string, error)
}

// Plan is what to rebuild a filter to.
type Plan struct {
	Params Params
	// Refill, in place of Params, keeps those of the generation that answers when
	// the turn of this rebuild comes.
	Refill bool
	From   Shards
	// AnyRate switches to the new generation even when it says "maybe" more
	// often than it was designed to. It is for the fault that shows what that
	// does.
	AnyRate bool
}

// Rebuild fills a new generation with all names, verifies it, and switches to
// it. Meanwhile the old generation answers, and what others Add goes into both,
// so nothing written during the rebuild is lost. It refuses the switch with
// [ErrMissing] or [ErrRate] when the new generation is not what it should be,
// and with the error of the shards when they fail; the old generation then
// stays. Ending ctx cancels it. Rebuilds wait for each other.
//
// It never holds more than two generations in memory.
func (f *Filter) Rebuild(ctx context.Context, p Plan) error {
	if err := f.beginRebuild(ctx); err != nil {
		return err
	}
	defer f.endRebuild()
	if p.Refill {
		p.Params = f.Params()
	}
	if err := f.makeRoom(p.Params); err != nil {
		return err
	}
	old := f.current.Load()
	next, err := newGeneration(old.number+1, p.Params, time.Now())
	if err != nil {
		return err
	}
	f.report(next, old)
	return f.replace(ctx, next, p, func(ctx context.Context, add func(string)) error {
		if err := p.From.All(ctx, add); err != nil {
			return fmt.Errorf("fill filter generation %d: %w", next.number, err)
		}
		return nil
	})
}

func (f *Filter) beginRebuild(ctx context.Context) error {
	select {
	case f.rebuilding <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another rebuild: %w", ctx.Err())
	}
}

func (f *Filter) endRebuild() {
	f.progress.Store(nil)
	<-f.rebuilding
}

// largeFilter is the size from which makeRoom matters; a collection costs more
// than a smaller one is worth.
const largeFilter = 64 << 20

// makeRoom frees the generation that the last rebuild retired, if it is still
// there: the collector alone would let it lie until the heap has doubled, and
// there would be three. Nothing else knows when the last test in it is over.
func (f *Filter) makeRoom(p Params) error {
	m, _, err := p.Size()
	if err != nil {
		return err
	}
	if f.current.Load().bytes()+uint64(m)/8 >= largeFilter {
		runtime.GC()
	}
	return nil
}

// replace opens next for writers, fills it, verifies it and switches to it.
func (f *Filter) replace(ctx context.Context, next *generation, p Plan, fill func(context.Context, func(string)) error) error {
	opened := time.Now()
	f.setNext(next)
	err := fill(ctx, func(name string) { next.add(hash(name), Build) })
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = f.verify(ctx, next, p, opened)
	}
	if err != nil {
		f.setNext(nil)
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current.Store(next)
	f.next = nil
	return nil
}

func (f *Filter) setNext(g *generation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = g
}

// progress is what a running rebuild tells.
type progress struct {
	next     *generation
	started  time.Time
	expected uint64
	verify   atomic.Bool
}

// report begins to tell of the filling of next. It expects as many names as the
// old generation was given by those who may.
func (f *Filter) report(next, old *generation) {
	f.progress.Store(&progress{
		next: next, started: next.builtAt,
		expected: old.added[Build].Load() + old.added[Register].Load(),
	})
}

// Progress is how far a rebuild has come.
type Progress struct {
	Generation uint64 // the one that is being filled
	StartedAt  time.Time
	// Names is how many names were read from the shards so far.
	Names uint64
	// Expected is how many there will be, going by the generation before; 0
	// when that is not known.
	Expected uint64
	// Verifying says that all names were read.
	Verifying bool
	// Remaining is Elapsed × (Expected − Names) / Names; see RemainingKnown.
	Remaining      time.Duration
	RemainingKnown bool
}

// Progress returns how far the rebuild has come that goes on; false when none
// does.
func (f *Filter) Progress() (Progress, bool) {
	p := f.progress.Load()
	if p == nil {
		return Progress{}, false
	}
	out := Progress{
		Generation: p.next.number, StartedAt: p.started, Verifying: p.verify.Load(),
		Names: p.next.added[Build].Load(), Expected: p.expected,
	}
	switch {
	case out.Verifying:
	case out.Names > 0 && out.Names <= out.Expected:
		share := float64(out.Expected-out.Names) / float64(out.Names)
		out.Remaining, out.RemainingKnown = duration(time.Since(p.started).Seconds()*share), true
	}
	return out, true
}
