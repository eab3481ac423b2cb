package event_test

import (
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/event"
)

// BenchmarkDelivery carries events of four shards through a real Redis to two groups.
func BenchmarkDelivery(b *testing.B) {
	w := newBench(b, true, 4)
	w.relay(func(o *event.RelayOptions) { o.Tick = time.Second }, "audit", "profile")
	for n := range b.N {
		w.boxes[n%4].commit("love")
	}
	audit, profile := newRecord(), newRecord()
	b.ResetTimer()
	w.consumer("audit", "c", audit.handler(fine), nil)
	w.consumer("profile", "c", profile.handler(fine), nil)
	eventually(b, "all events", func() bool { return audit.distinct() == b.N && profile.distinct() == b.N })
}
