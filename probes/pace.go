package probes

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A probe that computes rates takes two samples and waits between them. How long
// is for its options to say, unless whoever runs it knows better: an engineer who
// asked for another window, or a recorder, which lets the probe stand by between
// its samples until the second one is wanted.

type paceKey struct{}

// pace is what a context says about the wait between two samples.
type pace struct {
	window  time.Duration
	standby *Standby
}

// WithWindow returns a context in which probes wait for window between two
// samples, whatever their options say.
func WithWindow(ctx context.Context, window time.Duration) context.Context {
	return context.WithValue(ctx, paceKey{}, pace{window: window})
}

// Window returns the time to wait between two samples in ctx, where a probe's
// options say own.
func Window(ctx context.Context, own time.Duration) time.Duration {
	p, _ := ctx.Value(paceKey{}).(pace)
	switch {
	case p.standby != nil:
		return max(time.Until(p.standby.until), 0)
	case p.window > 0:
		return p.window
	}
	return own
}

// Standby lets one check wait between its samples until it is released, or until
// its time is up.
type Standby struct {
	until    time.Time
	released chan struct{}
	once     sync.Once

	mu       sync.Mutex
	parked   time.Time
	abridged bool
}

// NewStandby returns a standby that ends by itself at until.
func NewStandby(until time.Time) *Standby {
	return &Standby{until: until, released: make(chan struct{})}
}

// Context returns a context in which a check stands by.
func (s *Standby) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, paceKey{}, pace{standby: s})
}

// Release lets the check take its second sample.
func (s *Standby) Release() { s.once.Do(func() { close(s.released) }) }

// Parked returns when the check had its first sample; zero if it never waited.
func (s *Standby) Parked() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parked
}

// Abridged reports whether the check was told that it is for the record only, so
// that its evidence may lack what is not cheap.
func (s *Standby) Abridged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abridged
}

// Park notes, for a check that stands by in ctx, that it has its first sample,
// and returns what is closed when the second is wanted: nil, which never is,
// for a check that does not stand by.
func Park(ctx context.Context) <-chan struct{} {
	p, _ := ctx.Value(paceKey{}).(pace)
	if p.standby == nil {
		return nil
	}
	s := p.standby
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked.IsZero() {
		s.parked = time.Now()
	}
	return s.released
}

// Recording reports whether the check in ctx is for the record only, and nobody
// waits for its evidence: then a probe leaves out what is not cheap.
func Recording(ctx context.Context) bool {
	p, _ := ctx.Value(paceKey{}).(pace)
	if p.standby == nil {
		return false
	}
	select {
	case <-p.standby.released:
		return false
	default:
	}
	p.standby.mu.Lock()
	defer p.standby.mu.Unlock()
	p.standby.abridged = true
	return true
}

// ErrNotRecorded is what a check returns that has nothing cheap to measure for the
// record, and so measured nothing.
var ErrNotRecorded = errors.New("not for the record: it is not cheap")
