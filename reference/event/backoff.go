package event

import (
	"context"
	"math/rand/v2"
	"time"
)

// firstPause is the pause after a first failure. It doubles with every further one.
const firstPause = 50 * time.Millisecond

// backoff spaces repeated failures out.
type backoff struct {
	most time.Duration
	next time.Duration
}

// reset says that it works again.
func (b *backoff) reset() { b.next = 0 }

// wait pauses until the next try, or until ctx ends. Between half and all of the pause is kept, at random, so that those
// who failed together do not come back together.
func (b *backoff) wait(ctx context.Context) {
	b.next = min(max(2*b.next, firstPause), b.most)
	pause(ctx, b.next/2+rand.N(b.next/2+1))
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
