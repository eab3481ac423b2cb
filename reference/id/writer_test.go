package id_test

import (
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/id"
)

// TestWriter reads the machine number back out of ids of both segments.
func TestWriter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, machine := range []int{0, 7, id.Machines - 1} {
		at := now
		g, err := id.New(id.Fixed(machine), func() time.Time { return at })
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []time.Duration{0, -time.Second} { // a clock that goes back leads to the spare segment
			at = at.Add(step)
			given, err := g.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := id.Writer(given); got != machine || !ok {
				t.Errorf("Writer(%d) = %d, %t, want %d", given, got, ok, machine)
			}
		}
		if s := g.Stats(); s.Spare != 1 {
			t.Errorf("%+v: the spare segment was not used", s)
		}
	}
	for _, none := range []int64{-1, 0, 1, 20_000, 1<<22 - 1} {
		if _, ok := id.Writer(none); ok {
			t.Errorf("Writer(%d): no generator gave that out", none)
		}
	}
}
