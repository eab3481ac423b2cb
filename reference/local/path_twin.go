package local

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/id"
	"github.com/regpath/diagnose/reference/shard"
)

// sharedNumber is a machine number that another instance may have as well.
type sharedNumber struct {
	id.Machine

	twin atomic.Pointer[func(at time.Time)]
}

// Used implements [id.Machine]. It is called in the millisecond of the id, which is the twin's moment.
func (s *sharedNumber) Used(at time.Time) {
	s.Machine.Used(at)
	if register := s.twin.Load(); register != nil {
		(*register)(at)
	}
}

const (
	// twinUsers is how many users of the twin may wait for their registration; more are turned away.
	twinUsers = 64
	// twinTimeout bounds one of them.
	twinTimeout = time.Second
)

// startTwin runs what matters of a second instance with the machine number of this one: a generator of ids, and users who
// register there, each in the millisecond in which one registers here. Where two users with one id meet on a shard, its index
// refuses the later one, who may be either, and failed is told; on two shards nobody notices.
func (p *Path) startTwin(ctx context.Context, number *sharedNumber, failed func(reference.Failure)) (stop func(), err error) {
	var clock time.Time // as exact as this one's
	ids, err := id.New(id.Fixed(number.Number()), func() time.Time { return clock })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	users := make(chan int64, twinUsers)
	var running sync.WaitGroup
	running.Go(func() {
		began := strconv.FormatInt(time.Now().UnixMilli(), 36)
		for n := 0; ; n++ {
			select {
			case user := <-users:
				name := fmt.Sprintf("twin%s.%d", began, n)
				if err := p.registerAtTwin(ctx, name, user); err != nil && ctx.Err() == nil {
					failed(reference.Failure{Layer: reference.Shard, Target: p.shardOf(name), Err: err})
				}
			case <-ctx.Done():
				return
			}
		}
	})
	register := func(at time.Time) {
		clock = at
		user, err := ids.Next(ctx)
		if err != nil {
			return
		}
		select {
		case users <- user:
		default:
		}
	}
	number.twin.Store(&register)
	return func() {
		number.twin.Store(nil)
		cancel()
		running.Wait()
	}, nil
}

func (p *Path) shardOf(name string) string {
	return "shard" + strconv.Itoa(p.Service.Shards.Owner(name))
}

// registerAtTwin claims a name. The shard's errors count, for it is the same shard.
func (p *Path) registerAtTwin(ctx context.Context, name string, user int64) error {
	ctx, cancel := context.WithTimeout(ctx, twinTimeout)
	defer cancel()
	won, err := p.Service.Shards.Claim(ctx, shard.Claim{Name: name, UserID: user, At: time.Now()})
	if won && err == nil {
		p.Service.Relay.Wake(p.Service.Shards.Owner(name))
	}
	return err
}
