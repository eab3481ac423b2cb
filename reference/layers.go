package reference

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/event"
	"github.com/regpath/diagnose/reference/shard"
)

// What a request can fail with, beside what is wrong with its name.
var (
	ErrTaken       = errors.New("name is taken")
	ErrUnavailable = errors.New("temporarily unavailable")
)

// Layer names a layer, as the diagnostic contract spells it.
type Layer string

// The layers that answer or fail.
const (
	Bloom Layer = "bloom"
	Local Layer = "local"
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
	Filter    *bloom.Filter
	Local     *cache.Local
	Redis     *cache.Redis
	Shards    *shard.Cluster
	FollowUps *event.FollowUps
	IDs       *IDs
	// Failed is told of every failure. It must not block.
	Failed func(Failure)
}

// degradedChecks is how many checks may be at the shards at a time while Redis
// fails.
const degradedChecks = 16

// New joins the layers, all of which must be there. The caller closes them.
func New(l Layers) *Service {
	return &Service{Layers: l, degraded: make(chan struct{}, degradedChecks)}
}

// SetWriteOnRead makes checks write to the filter, which they must not: a fault
// to be diagnosed. It returns what was set before.
func (s *Service) SetWriteOnRead(on bool) (before bool) { return s.writeOnRead.Swap(on) }

// RebuildFilter fills a new filter made for p from all shards, together with
// what is registered meanwhile, and switches to it. The old one answers until
// then, and stays when a shard fails.
func (s *Service) RebuildFilter(ctx context.Context, p bloom.Params) error {
	return s.Filter.Rebuild(ctx, p, func(ctx context.Context, add func(string)) error {
		group, ctx := errgroup.WithContext(ctx)
		for i := range s.Shards.Len() {
			group.Go(func() error {
				err := s.Shards.Store(i).Names(ctx, func(n string) error { add(n); return nil })
				if err != nil {
					return fmt.Errorf("shard%d: %w", i, err)
				}
				return nil
			})
		}
		return group.Wait()
	})
}

// Verified is how the names of one shard fared in Verify.
type Verified struct {
	Shard            string
	Sampled, Missing int
	Err              error
}

// Verify samples up to n existing names, spread over the shards and registered
// before the given time, and looks for them in the filter. A Bloom filter has
// no false negatives: every missing name is a fault. It returns when ctx ends
// at the latest; a shard that could not be asked says so.
func (s *Service) Verify(ctx context.Context, n int, before time.Time) []Verified {
	shards := s.Shards.Len()
	out := make([]Verified, shards)
	var group errgroup.Group
	for i := range shards {
		group.Go(func() error {
			share := (n + shards - 1 - i) / shards
			out[i].Shard = "shard" + strconv.Itoa(i)
			if share == 0 {
				return nil
			}
			names, err := s.Shards.Store(i).Sample(ctx, share, before)
			if err != nil {
				out[i].Err = err
				return nil
			}
			_, maybe := s.Filter.TestAll(names)
			out[i].Sampled, out[i].Missing = len(names), len(names)-len(maybe)
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
	return out
}
