//go:build unix

package bloom

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// BenchmarkBillion makes a filter for 1,000,000,000 names at 1 %, half of its
// bits set, and reads its fill while names are asked for without a pause. It
// reports the memory, the CPU time of one reading, and the longest time that
// one check took meanwhile. It needs 1.3 GB.
func BenchmarkBillion(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, err := New(Params{Capacity: 1_000_000_000, Rate: 0.01})
	if err != nil {
		b.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	g := f.current.Load()
	for i := range g.words {
		g.words[i] = 0x5555555555555555
	}
	f.Add("user", Register)

	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start, readings := cpu(), 0
	for b.Loop() {
		f.Stats()
		readings++
	}
	perReading := (cpu() - start) / time.Duration(readings)

	var quit atomic.Bool
	var asking sync.WaitGroup
	var pause time.Duration
	asking.Go(func() {
		for i := 0; !quit.Load(); i++ {
			at := time.Now()
			f.Test("free" + strconv.Itoa(i&1023))
			pause = max(pause, time.Since(at))
		}
	})
	for range 20 {
		f.Stats()
	}
	quit.Store(true)
	asking.Wait()

	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e9, "GB")
	b.ReportMetric(float64(perReading)/1e6, "cpu-ms/reading")
	b.ReportMetric(float64(pause)/1e6, "max-pause-ms")
}
