package cache

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
)

// How long the local cache believes something. "Free" may turn false at any
// moment on another instance, so it is only kept to absorb a burst.
const (
	LocalTakenTTL = 5 * time.Minute
	LocalFreeTTL  = time.Second
)

// Local is the in-process cache of answers. It is safe for concurrent use.
type Local struct {
	answers *otter.Cache[string, bool] // name to "is taken"
}

// NewLocal returns a local cache for about size names.
func NewLocal(size int) (*Local, error) {
	if size <= 0 {
		return nil, fmt.Errorf("local cache size must be positive, got %d", size)
	}
	answers, err := otter.New(&otter.Options[string, bool]{
		MaximumSize: size,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, bool]) time.Duration {
			if e.Value {
				return LocalTakenTTL
			}
			return LocalFreeTTL
		}),
		Logger: &otter.NoopLogger{},
	})
	if err != nil {
		return nil, fmt.Errorf("make local cache: %w", err)
	}
	return &Local{answers: answers}, nil
}

// Get returns whether name is taken, if that is known.
func (l *Local) Get(name string) (taken, known bool) { return l.answers.GetIfPresent(name) }

// SetTaken notes that name is taken; it replaces "free".
func (l *Local) SetTaken(name string) { l.answers.Set(name, true) }

// SetFree notes that name was free when a back end was asked. It never
// replaces an answer: a look-up that began before a registration may end after
// it, and must not undo it.
func (l *Local) SetFree(name string) { l.answers.SetIfAbsent(name, false) }

// Len returns about how many names are cached.
func (l *Local) Len() int { return l.answers.EstimatedSize() }

// Close stops the goroutines of the cache.
func (l *Local) Close() { l.answers.StopAllGoroutines() }
