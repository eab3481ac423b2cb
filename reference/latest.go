package reference

import (
	"slices"
	"sync"
	"time"

	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

const (
	// latestNames is how many of the latest registrations are remembered.
	latestNames = 1000
	// latestAge is how long: what is older is as likely found in a sample of all
	// names.
	latestAge = time.Hour
)

// latest remembers the latest registrations of this instance. What is wrong
// with the way of a new name into the caches shows in them first, and hardly in
// a sample of all names. It is safe for concurrent use.
type latest struct {
	mu   sync.Mutex
	rows []shard.Row // a ring
	next int
}

func (l *latest) add(c shard.Claim) {
	row := shard.Row{Name: c.Name, UserID: c.UserID, CreatedAt: c.At, State: name.Claimed}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rows) < latestNames {
		l.rows = append(l.rows, row)
		return
	}
	l.rows[l.next] = row
	l.next = (l.next + 1) % latestNames
}

// between returns the registrations from the first time on and before the
// second, in no order.
func (l *latest) between(from, before time.Time) []shard.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.rows), func(r shard.Row) bool {
		return r.CreatedAt.Before(from) || !r.CreatedAt.Before(before)
	})
}

// latestBefore returns the latest registrations of this instance, older than
// the time given. None of them can be free again: no cool-down is over yet.
func (s *Service) latestBefore(before time.Time) []shard.Row {
	return s.latest.between(time.Now().Add(-min(latestAge, s.coolDown())), before)
}
