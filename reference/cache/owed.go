package cache

import (
	"iter"
	"sync"
	"time"
)

// maxOwed bounds the releases, and the registrations, that wait for Redis: a
// megabyte or two. A release beyond it is made good by the outbox, or ends with
// the TTL of the marker. Of registrations beyond it every instance is told that
// there were some, and asks the shards.
const maxOwed = 10_000

// Owed counts what could not be told to Redis and is to be told by a Sweep.
type Owed struct{ Claims, Releases int }

// owed are the changes that did not reach Redis. It dies with the process: then
// the events tell of them.
type owed struct {
	mu       sync.Mutex
	releases map[string]time.Time
	claims   map[string]struct{}
	lost     bool // there were more claims than it keeps
}

func (o *owed) addRelease(name string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.releases == nil {
		o.releases = make(map[string]time.Time)
	}
	if len(o.releases) < maxOwed {
		o.releases[name] = at
	}
}

func (o *owed) addClaim(name string) { o.putBack([]string{name}, false) }

// putBack adds claims, and that some are lost.
func (o *owed) putBack(claims []string, lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.claims == nil {
		o.claims = make(map[string]struct{})
	}
	o.lost = o.lost || lost
	for _, name := range claims {
		if len(o.claims) >= maxOwed {
			o.lost = true
			return
		}
		o.claims[name] = struct{}{}
	}
}

// takeReleases yields the releases that are owed and forgets each.
func (o *owed) takeReleases() iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		for {
			name, at, ok := o.oneRelease()
			if !ok || !yield(name, at) {
				return
			}
		}
	}
}

func (o *owed) oneRelease() (name string, at time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, at = range o.releases {
		delete(o.releases, name)
		return name, at, true
	}
	return "", time.Time{}, false
}

// takeClaims returns some claims that are owed and whether some are lost, and
// forgets both.
func (o *owed) takeClaims() (names []string, lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.claims {
		if len(names) == sweepSize {
			break
		}
		delete(o.claims, name)
		names = append(names, name)
	}
	lost, o.lost = o.lost, false
	return names, lost
}

func (o *owed) count() Owed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Owed{Claims: len(o.claims), Releases: len(o.releases)}
}
