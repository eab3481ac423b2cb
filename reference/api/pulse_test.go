package api

import (
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	t.Parallel()
	var p pulse
	stop := p.start()
	stop()
	stalls, stalled := p.stalls.Load(), p.stalled.Load() // the machine's own, if any
	for _, by := range []time.Duration{-time.Millisecond, 0, stallFrom - 1, stallFrom, 150 * time.Millisecond} {
		p.late(by)
	}
	if got := p.stalls.Load() - stalls; got != 2 {
		t.Errorf("%d stalls, want 2", got)
	}
	if got := time.Duration(p.stalled.Load() - stalled); got != stallFrom+150*time.Millisecond {
		t.Errorf("stalled for %v, want 160ms", got)
	}
}
