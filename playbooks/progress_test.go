package playbooks_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// TestProgress: a run that goes on tells what is known, each thing once, and no more
// than that; one that is soon over tells nothing.
func TestProgress(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) probes.Probe {
		return check(func(ctx context.Context) (probes.Evidence, error) {
			time.Sleep(d) //nolint:forbidigo // of the bubble's own time
			return fine(ctx)
		})
	}
	for _, tt := range []struct {
		name string
		a, b time.Duration
		want []string
	}{
		{"soon over", 0, 900 * time.Millisecond, nil},
		{"one is slow", 0, 3500 * time.Millisecond, []string{"a"}},
		{"both are slow", 1500 * time.Millisecond, 2500 * time.Millisecond, []string{"a"}},
		{"nothing is known", 3500 * time.Millisecond, 3500 * time.Millisecond, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				r := playbooks.Runner{Progress: func(in playbooks.Incident, soFar []playbooks.Finding) {
					if in.ID != "i" || len(soFar) != 1 || soFar[0].Status != playbooks.OK || soFar[0].Summary != "fine" {
						t.Errorf("told of %q: %+v, want the finding of one step", in.ID, soFar)
					}
					told = append(told, soFar[0].Step)
				}}
				if got := r.Run(t.Context(), pair(t, after(tt.a), after(tt.b)), playbooks.Incident{ID: "i"}); got.Verdict != playbooks.Healthy {
					t.Errorf("verdict %q, want healthy", got.Verdict)
				}
				synctest.Wait()
				if len(told) != len(tt.want) || len(told) > 0 && told[0] != tt.want[0] {
					t.Errorf("told of %q, want %q", told, tt.want)
				}
			})
		})
	}
}
