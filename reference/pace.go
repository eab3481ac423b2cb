package reference

import (
	"context"
	"runtime"
	"time"
)

// stretch is how long a reader works before it rests: short beside what a check
// may take.
const stretch = 2 * time.Millisecond

// pace makes one of several readers of many names rest so much that all of them
// together keep no more than half of the cores busy.
type pace struct {
	// restPerWork is how long a rest is, by the work before it.
	restPerWork float64
	begun       time.Time // of this stretch of work
	names       int
}

func newPace(readers int) *pace {
	return &pace{restPerWork: max(0, 2*float64(readers)/float64(runtime.GOMAXPROCS(0))-1), begun: time.Now()}
}

// keep is called after each name; its error is that ctx has ended.
func (p *pace) keep(ctx context.Context) error {
	if p.names++; p.names%64 != 0 {
		return nil // the clock costs more than a name
	}
	worked := time.Since(p.begun)
	if worked < stretch {
		return nil
	}
	// What took longer has waited for the database, not worked.
	rest := time.NewTimer(time.Duration(float64(min(worked, 2*stretch)) * p.restPerWork))
	defer rest.Stop()
	select {
	case <-rest.C:
		p.begun = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
