package api

import (
	"sync/atomic"
	"time"
)

const (
	// pulseEvery is often enough to feel a CPU quota, whose usual period is 100 ms,
	// and costs nothing: fifty wake-ups a second.
	pulseEvery = 20 * time.Millisecond
	// stallFrom is far above the millisecond by which a timer may be late, and below
	// what a request would feel.
	stallFrom = 10 * time.Millisecond
)

// pulse tells whether the process gets to run: it wants to wake at every beat, and
// counts how late it does. Who is late for that, because he is stopped, throttled,
// crowded out or collecting garbage, is late for everything.
type pulse struct {
	stalls  atomic.Uint64
	stalled atomic.Int64 // nanoseconds
}

// start lets it beat until stop is called, which waits for its end.
func (p *pulse) start() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(pulseEvery)
		defer timer.Stop()
		for {
			due := time.Now().Add(pulseEvery)
			timer.Reset(pulseEvery)
			select {
			case <-timer.C:
			case <-done:
				return
			}
			p.late(time.Since(due))
		}
	}()
	return func() { close(done); <-ended }
}

func (p *pulse) late(by time.Duration) {
	if by >= stallFrom {
		p.stalls.Add(1)
		p.stalled.Add(int64(by))
	}
}
