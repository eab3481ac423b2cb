package webhook

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkStore measures what stands between a request and its 2xx.
func BenchmarkStore(b *testing.B) {
	one, err := Decode(readCase(b, "v35-firing-single.json"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("new incident", func(b *testing.B) {
		in := openInbox(b, Options{})
		i := 0
		for b.Loop() {
			i++
			storeGroup(b, in, one, i)
		}
	})
	b.Run("new incident, 16 at a time", func(b *testing.B) {
		in := openInbox(b, Options{})
		var i atomic.Int64
		b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				storeGroup(b, in, one, int(i.Add(1)))
			}
		})
	})
	b.Run("repetition", func(b *testing.B) {
		in := openInbox(b, Options{})
		for b.Loop() {
			storeGroup(b, in, one, 0)
		}
	})
	b.Run("5000 alerts", func(b *testing.B) {
		storm, err := Decode(readCase(b, "33-5000-alerts.json"))
		if err != nil {
			b.Fatal(err)
		}
		in := openInbox(b, Options{})
		i := 0
		for b.Loop() {
			i++
			storeGroup(b, in, storm, i)
		}
	})
}

func storeGroup(b *testing.B, in *Inbox, m Message, group int) {
	m.GroupKey = strconv.Itoa(group)
	m.Alerts = slices.Clone(m.Alerts)
	if _, err := in.Store(b.Context(), m); err != nil {
		b.Error(err)
	}
}

// BenchmarkDecode measures the decoder on a common body and on a storm.
func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"v35-firing-single.json", "33-5000-alerts.json"} {
		body := readCase(b, name)
		b.Run(strings.TrimSuffix(name, ".json"), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
