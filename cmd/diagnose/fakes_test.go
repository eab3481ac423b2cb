package main

import (
	"context"
	"sync"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/webhook"
)

// memory is a memo without a store.
type memory struct {
	mu   sync.Mutex
	kept map[string][]byte
	sent []string
}

var _ webhook.Memo = (*memory)(nil)

func (m *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.kept[key]
	return v, ok, nil
}

// Put keeps the promise of webhook.Memo: the end of the context is no obstacle.
func (m *memory) Put(_ context.Context, key string, value []byte, couriers ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string][]byte{}
	}
	m.kept[key] = value
	m.sent = append(m.sent, couriers...)
	return nil
}

func (m *memory) Attempt() int { return 1 }

// notifierFunc is a sink made of a function.
type notifierFunc func(ctx context.Context, n notify.Notice) (notify.Receipt, error)

func (f notifierFunc) Notify(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	return f(ctx, n)
}

// detailerFunc is a sink with room for details.
type detailerFunc struct{ notifierFunc }

func (f detailerFunc) Detail(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	return f.notifierFunc(ctx, n)
}

// probeFunc is a probe made of a function.
type probeFunc func(ctx context.Context) (probes.Evidence, error)

func (f probeFunc) Check(ctx context.Context) (probes.Evidence, error) { return f(ctx) }
