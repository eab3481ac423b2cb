package reference

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/event"
	"github.com/regpath/diagnose/reference/id"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
	"github.com/regpath/diagnose/reference/traffic"
)

// What a request can fail with, beside what is wrong with its name.
var (
	ErrTaken       = errors.New("name is taken")
	ErrMobile      = errors.New("mobile number must be a + and 8 to 15 digits")
	ErrMobileTaken = shard.ErrMobileTaken
	ErrUnavailable = errors.New("temporarily unavailable")
)

// DownError is an [ErrUnavailable] that says what is down.
type DownError struct {
	What string // may be shown to anybody
	Err  error  // may not
}

// Error implements error.
func (e *DownError) Error() string {
	return ErrUnavailable.Error() + ": " + e.What + ": " + e.Err.Error()
}

// Unwrap returns ErrUnavailable and the cause.
func (e *DownError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Layer names a layer, as the diagnostic contract spells it.
type Layer string

// The layers that answer or fail.
const (
	Guard Layer = "guard"
	Bloom Layer = "bloom"
	Local Layer = "local"
	Cache Layer = "cache" // of a failure of either cache to tell the truth
	Redis Layer = "redis"
	Shard Layer = "shard"
	Event Layer = "event"
	API   Layer = "api"
)

// Failure is something that went wrong inside a layer. Expected refusals, a
// taken or an invalid name, are none.
type Failure struct {
	Layer  Layer
	Target string // what was spoken to: an address, a shard
	Err    error
}

// Layers are the parts of a Service.
type Layers struct {
	Names     *name.Policy // which names there can be; nil means the default
	Filter    *bloom.Filter
	Local     *cache.Local
	Redis     *cache.Redis
	Shards    *shard.Cluster
	IDs       *id.Generator
	Relay     *event.Relay      // is woken after each commit
	Consumers []*event.Consumer // for their figures
	FollowUps *event.Hook       // tells the profile service; for its URL
	Audit     *event.Audit      // for its figures
	// CoolDown is how long a released name stays nobody's; 0 means [name.CoolDown].
	CoolDown time.Duration
	// Failed is told of every failure. It must not block.
	Failed func(Failure)
}

// degradedChecks is how many checks may be at one shard at a time while Redis
// fails: half of its connections. A shard that hangs keeps none but its own.
const degradedChecks = 4

// New joins the layers, all of which must be there. The caller closes them.
func New(l Layers) *Service {
	if l.Names == nil {
		l.Names = name.Default()
	}
	s := &Service{Layers: l, traffic: traffic.New(time.Now())}
	s.timing.bounds = [latencyBuckets - 1]float64(LatencyBounds())
	for range l.Shards.Len() {
		s.degraded = append(s.degraded, make(chan struct{}, degradedChecks))
	}
	return s
}

// Traffic watches what is asked of the service; the asking itself is noted by
// whoever knows the address it comes from.
func (s *Service) Traffic() *traffic.Watch { return s.traffic }

// SetWriteOnRead makes checks write to the filter, which they must not: a fault
// to be diagnosed. It returns what was set before.
func (s *Service) SetWriteOnRead(on bool) (before bool) { return s.writeOnRead.Swap(on) }

// RebuildFilter fills a new filter made for p from all shards, together with
// what is registered meanwhile, verifies it and switches to it. The old one
// answers until then, and stays when a shard fails or the new one is not as
// designed.
func (s *Service) RebuildFilter(ctx context.Context, p bloom.Params) error {
	return s.Filter.Rebuild(ctx, bloom.Plan{Params: p, From: s.names()})
}

// ForceFilter is RebuildFilter for a filter that may be too small for its
// names: a fault to be diagnosed.
func (s *Service) ForceFilter(ctx context.Context, p bloom.Params) error {
	return s.Filter.Rebuild(ctx, bloom.Plan{Params: p, From: s.names(), AnyRate: true})
}

// RefillFilter rebuilds the filter as it is, for names that it may lack. One that
// is too small by now is better than one without them.
func (s *Service) RefillFilter(ctx context.Context) error {
	return s.Filter.Rebuild(ctx, bloom.Plan{Refill: true, From: s.names(), AnyRate: true})
}

// RestoreFilter switches to the filter for p that was saved to the file path,
// with the names registered since; see [bloom.Filter.Restore].
func (s *Service) RestoreFilter(ctx context.Context, path string, p bloom.Params) error {
	return s.Filter.Restore(ctx, path, bloom.Plan{Params: p, From: s.names()})
}

func (s *Service) names() shardNames { return shardNames{s.Shards, s.Filter.Know} }

// shardNames reads the names of all shards for the filter.
type shardNames struct {
	shards *shard.Cluster
	know   func(name string) // makes every generation have it, and counts nothing
}

// All implements bloom.Shards: all shards at the same time, in bounded memory.
// A name that moves from one shard to another meanwhile may be read at neither:
// then all is read once more, until nothing has moved.
func (n shardNames) All(ctx context.Context, add func(string)) error {
	before, err := n.shards.Version(ctx)
	if err != nil {
		return err
	}
	for {
		if err := n.each(ctx, add); err != nil {
			return err
		}
		after, err := n.shards.Version(ctx)
		if err != nil || after == before {
			return err
		}
		before, add = after, n.know
	}
}

// each reads all shards, with rests: whoever checks a name meanwhile must find a
// core that is free.
func (n shardNames) each(ctx context.Context, add func(string)) error {
	shards := n.shards.Len()
	group, ctx := errgroup.WithContext(ctx)
	for i := range shards {
		group.Go(func() error {
			pace := newPace(shards)
			err := n.shards.Store(i).Names(ctx, func(name string) error {
				add(name)
				return pace.keep(ctx)
			})
			if err != nil {
				return fmt.Errorf("shard%d: %w", i, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Since implements bloom.Shards. A store cannot tell names by their age, so it
// is every name; the filter skips what it has.
func (n shardNames) Since(ctx context.Context, _ time.Time, add func(string)) error {
	return n.All(ctx, add)
}

// Sample implements bloom.Shards.
func (n shardNames) Sample(ctx context.Context, want int, before time.Time) ([]string, error) {
	shards := n.shards.Len()
	found := make([][]string, shards)
	group, ctx := errgroup.WithContext(ctx)
	for i := range shards {
		group.Go(func() error {
			share := (want + shards - 1 - i) / shards
			rows, err := n.shards.Store(i).Sample(ctx, share, before)
			if err != nil {
				return fmt.Errorf("shard%d: %w", i, err)
			}
			for _, r := range rows {
				found[i] = append(found[i], r.Name)
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(found...), err
}
