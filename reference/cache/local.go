package cache

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

// How long the local cache believes something. "Free" may turn false at any
// moment on another instance, so it is only kept to absorb a burst.
const (
	LocalTakenTTL = 5 * time.Minute
	LocalFreeTTL  = 500 * time.Millisecond
)

// Local is the in-process cache of answers. It is safe for concurrent use; Get
// takes no lock.
type Local struct {
	answers *otter.Cache[string, bool] // name to "is taken"
	seed    maphash.Seed
	// stripes hold a version for each part of all names. A look-up may enter
	// its answer only if the version is what it was when the look-up began.
	stripes [256]stripe
}

type stripe struct {
	mu      sync.Mutex
	version uint64
}

// Ticket is the right of a look-up to enter its answer, until something is
// learned that the look-up may have missed.
type Ticket struct{ version uint64 }

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
	return &Local{answers: answers, seed: maphash.MakeSeed()}, nil
}

// Get returns whether name is taken, if that is known.
func (l *Local) Get(name string) (taken, known bool) { return l.answers.GetIfPresent(name) }

// Begin is called before a back end is asked for name.
func (l *Local) Begin(name string) Ticket {
	s := l.stripe(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return Ticket{s.version}
}

// Fill enters what a back end answered, unless name, or another one that
// shares its version, was changed since t was given. It says whether it did.
func (l *Local) Fill(name string, t Ticket, taken bool) bool {
	s := l.stripe(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != t.version {
		return false
	}
	l.answers.Set(name, taken)
	return true
}

// SetTaken notes that name was found to have an owner, or given one. Look-ups
// that are under way may not enter what they see.
func (l *Local) SetTaken(name string) {
	s := l.stripe(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	l.answers.Set(name, true)
}

// Forget drops what is known of name, which was released. Look-ups that are
// under way may not enter what they see.
func (l *Local) Forget(name string) {
	s := l.stripe(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	l.answers.Invalidate(name)
}

// Purge forgets every name.
func (l *Local) Purge() {
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		s.version++
		s.mu.Unlock()
	}
	l.answers.InvalidateAll()
}

// Len returns about how many names are cached.
func (l *Local) Len() int { return l.answers.EstimatedSize() }

// Close stops the goroutines of the cache.
func (l *Local) Close() { l.answers.StopAllGoroutines() }

func (l *Local) stripe(name string) *stripe {
	return &l.stripes[maphash.String(l.seed, name)%uint64(len(l.stripes))]
}
