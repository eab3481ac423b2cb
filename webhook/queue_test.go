package webhook

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/regpath/diagnose/playbooks"
)

func TestUrgent(t *testing.T) {
	t.Parallel()
	o := Options{}.withDefaults()
	for severity, want := range map[string]bool{
		"P0": true, "p0": true, " P-0 ": true, "critical": true, "CRITICAL": true, "page": true,
		"": false, "P1": false, "warning": false, "p00": false, "pages": false,
	} {
		if got := o.Urgent(severity); got != want {
			t.Errorf("Urgent(%q): got %t, want %t", severity, got, want)
		}
	}
}

// TestUrgentFirst: while small things keep all their workers busy, urgent ones
// are worked on; and one that becomes urgent while it waits is moved.
func TestUrgentFirst(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := &fakeWorker{do: func(ctx context.Context, in playbooks.Incident, _ Memo) error {
		if in.Severity != "P0" {
			<-release
		}
		return ctx.Err()
	}}
	in := openInbox(t, Options{Worker: w, Workers: 2})
	h := newHandler(in)
	start(t, in)
	titles := func() []string {
		var list []string
		for _, c := range w.all() {
			list = append(list, c.in.Title)
		}
		return list
	}
	for i := range 2 {
		post(t, h, severe(fmt.Sprint("small", i), "warning"))
	}
	eventually(t, "the small ones are worked on", func() bool { return len(titles()) == 2 })
	post(t, h, severe("waiting", "warning"))
	post(t, h, severe("urgent", "P0"))
	eventually(t, "the urgent one is worked on", func() bool { return slices.Contains(titles(), "urgent") })
	if slices.Contains(titles(), "waiting") {
		t.Errorf("got %v, want the third small one to wait", titles())
	}
	worse := fmt.Appendf(nil, `{"groupKey":"waiting","alerts":[{"status":"firing","labels":{"alertname":"worse","severity":"P0"},"startsAt":%q}]}`, at(4))
	if _, got := post(t, h, worse); !slices.Equal(got, []Effect{Updated}) {
		t.Errorf("got %v, want updated", got)
	}
	eventually(t, "what has become urgent is worked on", func() bool { return slices.Contains(titles(), "waiting") })
	close(release)
	settle(t, in)
}
