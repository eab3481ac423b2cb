package reference

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regpath/diagnose/reference/event"
	"github.com/regpath/diagnose/reference/shard"
)

// faults are the mistakes that this service can be made to make, each one that a
// service like it has made. All are off; package fault switches them.
type faults struct {
	alone      atomic.Bool  // every look-up asks for itself
	trustFree  atomic.Bool  // "free" in the local cache decides
	keepStale  atomic.Bool  // nobody is told of a name that became available
	inline     atomic.Bool  // follow-ups are posted while the user waits
	forgetFree atomic.Bool  // no cache is told of names that have no owner
	skipFilter atomic.Bool  // the filter is not asked
	staleFree  atomic.Bool  // no cache is told of a registration
	clip       atomic.Int64 // of a canonical form no more bytes are kept; 0 for all
}

// SetLookupsAlone lets every check that misses the caches ask the back ends for
// itself, as without singleflight. Like those below, it returns what was set before.
func (s *Service) SetLookupsAlone(on bool) (before bool) { return s.faults.alone.Swap(on) }

// SetTrustFree lets a registration be acknowledged because the local cache says
// "free", before the index was asked.
func (s *Service) SetTrustFree(on bool) (before bool) { return s.faults.trustFree.Swap(on) }

// SetKeepStale keeps the caches from hearing of names that become available.
func (s *Service) SetKeepStale(on bool) (before bool) { return s.faults.keepStale.Swap(on) }

// SetFollowUpsInline lets a registration wait for its follow-ups.
func (s *Service) SetFollowUpsInline(on bool) (before bool) { return s.faults.inline.Swap(on) }

// SetClip lets the canonical form of names keep no more than so many bytes; 0
// lets it keep all.
func (s *Service) SetClip(bytes int) (before int) { return int(s.faults.clip.Swap(int64(bytes))) }

// Canonical is the canonical form that every path of this service gives a name;
// see [name.Policy].
func (s *Service) Canonical(raw string) (string, error) {
	n, err := s.Names.Canonical(raw)
	return s.clipped(n), err
}

// registrable is the canonical form of a name that a user may own.
func (s *Service) registrable(raw string) (string, error) {
	n, err := s.Names.Registrable(raw)
	return s.clipped(n), err
}

func (s *Service) clipped(n string) string {
	if most := int(s.faults.clip.Load()); most > 0 && len(n) > most {
		return strings.ToValidUTF8(n[:most], "")
	}
	return n
}

// SetForgetFree keeps the caches from hearing of names that a shard did not have.
func (s *Service) SetForgetFree(on bool) (before bool) { return s.faults.forgetFree.Swap(on) }

// SetSkipFilter lets checks go past the filter.
func (s *Service) SetSkipFilter(on bool) (before bool) { return s.faults.skipFilter.Swap(on) }

// SetStaleFree keeps the caches from hearing of registrations: what they have
// said of such a name, "free", stays.
func (s *Service) SetStaleFree(on bool) (before bool) { return s.faults.staleFree.Swap(on) }

// share calls ask, once for all who want the same name at the same time.
func (s *Service) share(n string, ask func() (any, error)) (any, error, bool) {
	if s.faults.alone.Load() {
		v, err := ask()
		return v, err, false
	}
	return s.flights.Do(n, ask)
}

// errLied is told when a user has been told that a name is theirs, and it is not.
var errLied = errors.New("a registration was acknowledged by what the local cache said, and the index refused it")

// acknowledged says yes to the claim if the local cache holds the name to be
// free, and claims it afterwards.
func (s *Service) acknowledged(ctx context.Context, c shard.Claim) bool {
	if taken, known := s.Local.Get(c.Name); !known || taken {
		return false
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backEndTimeout)
		defer cancel()
		if won, err := s.claim(ctx, c); err != nil || !won {
			s.Failed(Failure{Layer: Cache, Target: c.Name, Err: errors.Join(errLied, err)})
		}
	}()
	return true
}

// followInline posts the follow-up while the user waits. The event will be
// posted again, under another key.
func (s *Service) followInline(ctx context.Context, c shard.Claim) {
	defer s.timing.since(RegisterFollowUp, time.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := s.FollowUps.Handle(ctx, event.Event{Type: event.NameClaimed, Name: c.Name, UserID: c.UserID, At: c.At})
	if err != nil {
		s.Failed(Failure{Layer: Event, Target: "profile-service", Err: err})
	}
}
