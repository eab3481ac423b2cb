package event

import (
	"context"
	"errors"
	"sync"
	"time"
)

// What is wrong when a follow-up is lost.
var (
	ErrQueueFull = errors.New("follow-up queue is full")
	ErrClosed    = errors.New("follow-up queue is closed")
)

// Claimed says that a name has got its owner.
type Claimed struct {
	Name   string
	UserID int64
	At     time.Time
}

// Options say where follow-ups go.
type Options struct {
	// URL is posted to; empty switches follow-ups off.
	URL string
	// Workers is the number of requests at a time; 0 means 4.
	Workers int
	// Queue is the number of follow-ups that may wait; 0 means 1000.
	Queue int
	// Timeout bounds one request; 0 means 1 s.
	Timeout time.Duration
	// Failed is called with every follow-up that was lost and why. It must not
	// block.
	Failed func(error)
}

// FollowUps hands events to a Hook from memory, each at most once. It is safe
// for concurrent use.
type FollowUps struct {
	*Hook

	failed func(error)

	mu     sync.RWMutex // guards queue against being closed while it is sent to
	closed bool
	queue  chan Event
	ended  sync.WaitGroup
}

// NewFollowUps starts the workers. The caller must Close it.
func NewFollowUps(o Options) (*FollowUps, error) {
	if o.Workers == 0 {
		o.Workers = 4
	}
	if o.Queue == 0 {
		o.Queue = 1000
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Workers < 0 || o.Queue < 0 || o.Timeout < 0 || o.Failed == nil {
		return nil, errors.New("follow-ups need positive limits and somewhere to report failures")
	}
	hook, err := NewHook(o.URL, o.Timeout)
	if err != nil {
		return nil, err
	}
	f := &FollowUps{Hook: hook, queue: make(chan Event, o.Queue), failed: o.Failed}
	for range o.Workers {
		f.ended.Go(f.work)
	}
	return f, nil
}

// Notify queues c and returns at once.
func (f *FollowUps) Notify(c Claimed) {
	if *f.url.Load() == "" {
		return
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		f.failed(ErrClosed)
		return
	}
	select {
	case f.queue <- Event{ID: c.UserID, Type: NameClaimed, Name: c.Name, UserID: c.UserID, At: c.At}:
	default:
		f.failed(ErrQueueFull)
	}
}

// Close delivers what is queued, each within its timeout, and stops the
// workers.
func (f *FollowUps) Close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.queue)
	}
	f.mu.Unlock()
	f.ended.Wait()
	f.Hook.Close()
}

func (f *FollowUps) work() {
	for e := range f.queue {
		// The hook's timeout bounds the request; it belongs to no caller.
		if err := f.Handle(context.Background(), e); err != nil {
			f.failed(err)
		}
	}
}
