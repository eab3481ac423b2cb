package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// instanceLimit counts the requests of this instance in fixed windows.
type instanceLimit struct {
	count uint32
	per   int64
	start time.Time
	state atomic.Uint64 // number of the window << 32 | requests in it
}

func newInstanceLimit(l Limit, start time.Time) *instanceLimit {
	return &instanceLimit{count: uint32(l.Count), per: int64(l.Per), start: start}
}

// Check implements Checker.
func (l *instanceLimit) Check(_ context.Context, r Request) (Verdict, error) {
	if wait := l.take(r.At); wait > 0 {
		return Verdict{Outcome: Limited, Reason: "this server has too much to do", RetryAfter: wait}, nil
	}
	return Verdict{}, nil
}

// take counts one request, or returns how long the window still lasts.
func (l *instanceLimit) take(at time.Time) time.Duration {
	now := int64(at.Sub(l.start))
	window := now / l.per
	if now%l.per < 0 { // before the start: the clock was set back
		window--
	}
	for {
		state := l.state.Load()
		ahead := int64(int32(uint32(state>>32) - uint32(window)))
		next := uint64(uint32(window))<<32 | 1
		// A window that is one ahead was begun by a request with a slightly later
		// time, and this one counts there. One further ahead is left from before
		// the clock was set back.
		if ahead == 0 || ahead == 1 {
			if uint32(state) >= l.count {
				return time.Duration((window+ahead+1)*l.per - now)
			}
			next = state + 1
		}
		if l.state.CompareAndSwap(state, next) {
			return 0
		}
	}
}
