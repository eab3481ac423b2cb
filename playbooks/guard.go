package playbooks

import (
	"context"
	"errors"
	"sync/atomic"
)

// guard keeps a probe from being asked twice at a time. A run waits for
// another run's check, but not for one that was left behind.
type guard struct {
	slot   chan struct{}
	holder atomic.Pointer[visit] // the last to take the slot
}

// visit is one check that has the slot.
type visit struct {
	guard *guard
	late  atomic.Bool // nobody waits for it any longer
}

func newGuard() *guard { return &guard{slot: make(chan struct{}, 1)} }

// Reasons why a probe was not asked.
var (
	errStillLate = errors.New("an earlier check of this probe still hangs")
	errBusy      = errors.New("another run's check of this probe took too long")
)

// enter takes the slot for a visit, which must leave it.
func (g *guard) enter(ctx context.Context) (*visit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case g.slot <- struct{}{}:
	default:
		if v := g.holder.Load(); v != nil && v.late.Load() {
			return nil, errStillLate
		}
		select {
		case g.slot <- struct{}{}:
		case <-ctx.Done():
			return nil, errBusy
		}
	}
	v := &visit{guard: g}
	g.holder.Store(v)
	return v, nil
}

// abandon says that nobody waits for the visit any longer.
func (v *visit) abandon() { v.late.Store(true) }

func (v *visit) leave() { <-v.guard.slot }
