package main

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// TestRecoveryCheck: when the alert resolves the playbook is run again. Where
// Redis, whose loss was the cause, is still away, the message says so; where it
// is back, the incident has recovered.
func TestRecoveryCheck(t *testing.T) {
	t.Parallel()
	f := func(name string, back bool, want string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pings atomic.Int32
			catalog := probes.Catalog{"rediscache": {
				Facts: []probes.FactDoc{{Name: "reachable", Unit: probes.Bool}},
				New: func(func(any) error) (probes.Probe, error) {
					return probeFunc(func(context.Context) (probes.Evidence, error) {
						up := 0.0
						if pings.Add(1) > 1 && back {
							up = 1
						}
						return probes.Evidence{Source: "redis", At: time.Now(), Facts: []probes.Fact{{Name: "reachable", Value: up, Unit: probes.Bool}}}, nil
					}), nil
				},
			}}
			loaded, err := playbooks.Load(catalog, playbooks.File{Name: "tiny.yaml", Data: []byte(tiny)})
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			chat := sink{"chat", notifierFunc(func(_ context.Context, n notify.Notice) (notify.Receipt, error) {
				told = append(told, notify.Headline(n))
				return notify.Receipt{Sink: "chat"}, nil
			})}
			l := &line{runs: newRuns(&playbooks.Runner{}), routing: always(loaded[0]), sinks: []sink{chat}, logger: slog.New(slog.DiscardHandler)}
			c, memo := &carrier{line: l, sink: chat}, &memory{}
			in := playbooks.Incident{ID: "a", Title: "Slow", StartedAt: time.Now().Add(-time.Minute)}
			step := func(work bool) {
				t.Helper()
				if work {
					if err := l.Work(t.Context(), in, memo); err != nil {
						t.Fatalf("Work: %v", err)
					}
				}
				if err := c.Carry(t.Context(), in, memo); err != nil {
					t.Fatalf("Carry: %v", err)
				}
			}
			step(false)
			step(true)
			in.ResolvedAt = in.StartedAt.Add(30 * time.Second)
			step(false)
			step(true)
			step(true) // nothing is measured or said again
			if got := pings.Load(); got != 2 {
				t.Errorf("measured %d times, want twice", got)
			}
			wants := []string{"Looking into Slow", "Redis is down (", "Resolved after 30 s: Redis is down", want}
			if len(told) != len(wants) {
				t.Fatalf("told %q, want %q", told, wants)
			}
			for i, w := range wants {
				if !strings.HasPrefix(told[i], w) {
					t.Errorf("told %q, want %q", told[i], w)
				}
			}
		})
	}
	f("gone", true, "Recovered after 30 s: Redis is down")
	f("still there", false, "Resolved after 30 s, but NOT recovered: Redis is down")
}
