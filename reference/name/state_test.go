package name_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/regpath/diagnose/reference/name"
)

// TestCanMove asks every pair of states, and numbers that are none.
func TestCanMove(t *testing.T) {
	t.Parallel()
	legal := map[[2]name.State]bool{
		{name.Available, name.Claimed}:  true,
		{name.Claimed, name.Locked}:     true,
		{name.Claimed, name.Released}:   true,
		{name.Locked, name.Released}:    true,
		{name.Released, name.Available}: true,
	}
	for from := name.State(-2); from < 7; from++ {
		for to := name.State(-2); to < 7; to++ {
			err := name.CanMove(from, to)
			if legal[[2]name.State{from, to}] {
				if err != nil {
					t.Errorf("CanMove(%s, %s) = %v, want nil", from, to, err)
				}
				continue
			}
			if !errors.Is(err, name.ErrMove) || !strings.HasSuffix(err.Error(), "from "+from.String()+" to "+to.String()) {
				t.Errorf("CanMove(%s, %s) = %v, want an error that names both", from, to, err)
			}
		}
	}
	if got := name.State(9).String(); got != "State(9)" {
		t.Errorf("State(9) = %s", got)
	}
}
