package local

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regpath/diagnose/reference/id"
	"github.com/regpath/diagnose/reference/shard"
)

// sharedNumber is a machine number that another instance may have as well.
type sharedNumber struct {
	id.Machine

	twin atomic.Pointer[func()]
}

// Used implements [id.Machine]. It is called in the millisecond of the id, which is the twin's moment.
func (s *sharedNumber) Used(at time.Time) {
	s.Machine.Used(at)
	if register := s.twin.Load(); register != nil {
		(*register)()
	}
}

const (
	// twinUsers is how many users of the twin may wait for their registration; more are turned away.
	twinUsers = 64
	// twinTimeout bounds one of them.
	twinTimeout = time.Second
)

// startTwin runs what matters of a second instance with the machine number of this one: a generator of ids, and users who
// register there, each at the moment at which one registers here. Where two users with one id meet on a shard, its index
// refuses one of them; on two shards nobody notices.
func (p *Path) startTwin(ctx context.Context, number *sharedNumber, now func() time.Time) (stop func(), err error) {
	ids, err := id.New(id.Fixed(number.Number()), now)
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
				p.registerAtTwin(ctx, fmt.Sprintf("twin%s.%d", began, n), user)
			case <-ctx.Done():
				return
			}
		}
	})
	register := func() {
		user, err := ids.Next(ctx)
		if err != nil {
			return // its clock is this one's, and wrong
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

// registerAtTwin claims a name past the counters of this instance. What comes of it is told to the twin's users.
func (p *Path) registerAtTwin(ctx context.Context, name string, user int64) {
	ctx, cancel := context.WithTimeout(ctx, twinTimeout)
	defer cancel()
	at := p.Service.Shards.Owner(name)
	if won, err := p.Service.Shards.Store(at).Claim(ctx, shard.Claim{Name: name, UserID: user, At: time.Now()}); won && err == nil {
		p.Service.Relay.Wake(at)
	}
}
