package shard

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// streams are sequences of keys that a summary of c counters finds easy, hard and hostile.
func streams(c int) map[string]func(yield func(string) bool) {
	key := func(i int) string { return "k" + strconv.Itoa(i) }
	const events = 30_000
	from := func(next func(i int) string) func(func(string) bool) {
		return func(yield func(string) bool) {
			for i := range events {
				if !yield(next(i)) {
					return
				}
			}
		}
	}
	random := func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) } // one for each: they are read at the same time
	uniform := random()
	zipf := func(s float64) func(int) string {
		z := rand.NewZipf(random(), s, 1, 1_000_000)
		return func(int) string { return key(int(z.Uint64())) }
	}
	return map[string]func(func(string) bool){
		"one key":           from(func(int) string { return "love" }),
		"zipf 1.01":         from(zipf(1.01)),
		"zipf 1.5":          from(zipf(1.5)),
		"uniform":           from(func(int) string { return key(uniform.IntN(5 * c)) }),
		"all different":     from(key),
		"exactly full":      from(func(i int) string { return key(i % (2 * c)) }),
		"one too many":      from(func(i int) string { return key(i % (2*c + 1)) }),
		"in blocks":         from(func(i int) string { return key(i / 7) }),
		"late riser":        from(func(i int) string { return key(max(0, i-events/2) * (i % 3)) }),
		"flood, then hot":   from(func(i int) string { return key(min(i, events-events/50)) }),
		"hot, then flood":   from(func(i int) string { return key(max(i, events/50)) }),
		"hot under a flood": from(func(i int) string { return key((i % 20) * i) }),
		"sawtooth":          from(func(i int) string { return key(i % (i/1000 + 1)) }),
		"comes back once":   from(func(i int) string { return key(i / 2 * (1 - i%2)) }),
	}
}

// verify checks every promise of a ranking against the exact counts.
func verify(t *testing.T, got []KeyCount, total uint64, c int, exact map[string]uint64) {
	t.Helper()
	known := map[string]bool{}
	for _, k := range got {
		if known[k.Key] {
			t.Fatalf("key %q is listed twice", k.Key)
		}
		known[k.Key] = true
		if n := exact[k.Key]; n > k.Count || n < k.Count-k.Error || k.Error > k.Count {
			t.Fatalf("key %q: counted %d with error %d, but it was seen %d times", k.Key, k.Count, k.Error, n)
		}
		if k.Error > total/uint64(c) {
			t.Fatalf("key %q: error %d exceeds total/c = %d/%d", k.Key, k.Error, total, c)
		}
	}
	for key, n := range exact {
		if n > total/uint64(c) && !known[key] {
			t.Fatalf("key %q was seen %d of %d times and is not listed with c = %d", key, n, total, c)
		}
	}
}

func TestSummaryKeepsItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []int{1, 2, 10, 100, 1000} {
		for name, stream := range streams(c) {
			t.Run(fmt.Sprintf("c=%d/%s", c, name), func(t *testing.T) {
				s, exact, seen := newSummary(c), map[string]uint64{}, 0
				for key := range stream {
					s.add(key)
					exact[key]++
					if seen++; seen%9973 == 0 || seen == 2*c || seen == 2*c+1 {
						verify(t, merge(s), s.total, c, exact)
					}
				}
				verify(t, merge(s), s.total, c, exact)
				if s.total != uint64(seen) {
					t.Errorf("total is %d, want %d", s.total, seen)
				}
				if len(s.entries) > 2*c {
					t.Errorf("%d counters are in use, want at most %d", len(s.entries), 2*c)
				}
			})
		}
	}
}

func TestMergedSummariesKeepTheirBounds(t *testing.T) {
	t.Parallel()
	const c = 50
	all := streams(c)
	for a, first := range all {
		for b, second := range all {
			s, u, exact := newSummary(c), newSummary(c), map[string]uint64{}
			for key := range first {
				s.add(key)
				exact[key]++
			}
			for key := range second {
				u.add(key)
				exact[key]++
			}
			t.Run(a+" + "+b, func(t *testing.T) { verify(t, merge(s, u), s.total+u.total, c, exact) })
		}
	}
}

func TestSummaryForgetsOnReset(t *testing.T) {
	t.Parallel()
	s := newSummary(2)
	for i := range 100 {
		s.add(strconv.Itoa(i))
	}
	s.reset()
	s.add("x")
	if got, want := merge(s), (KeyCount{Key: "x", Count: 1}); s.total != 1 || len(got) != 1 || got[0] != want {
		t.Errorf("after a reset and one event: total %d, counts %v, want 1 and %v", s.total, got, want)
	}
}

func TestSummaryDoesNotHoldTheRequest(t *testing.T) {
	t.Parallel()
	request := strings.Repeat("x", 1000) + "love"
	s := newSummary(1)
	s.add(request[1000:])
	if unsafe.StringData(s.entries[0].key) == unsafe.StringData(request[1000:]) {
		t.Error("the summary's key shares memory with the request it came from")
	}
}

func FuzzSummary(f *testing.F) {
	f.Add(uint8(1), "abcabca")
	f.Add(uint8(3), strings.Repeat("ab", 50)+"cdefghijkl")
	f.Fuzz(func(t *testing.T, c uint8, stream string) {
		counters := int(c%20) + 1
		s, u, exact := newSummary(counters), newSummary(counters), map[string]uint64{}
		for i := range len(stream) {
			key := stream[i : i+1]
			exact[key]++
			if i < len(stream)/3 {
				s.add(key)
			} else {
				u.add(key)
			}
		}
		verify(t, merge(s, u), s.total+u.total, counters, exact)
	})
}

func TestKeyWindows(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	w := newKeyWindows(start)
	feed := func(seconds int, keys ...string) {
		for _, k := range keys {
			w.observe(k, at(seconds))
		}
	}
	check := func(seconds, since int, want ...KeyCount) {
		t.Helper()
		got := w.top(2, at(seconds))
		if !got.Since.Equal(at(since)) {
			t.Errorf("at %d s: since %v, want %v", seconds, got.Since.Sub(start), time.Duration(since)*time.Second)
		}
		if fmt.Sprint(got.Keys) != fmt.Sprint(want) {
			t.Errorf("at %d s: keys %v, want %v", seconds, got.Keys, want)
		}
	}
	check(0, 0)
	feed(1, "a", "b", "a")
	check(1, 0, KeyCount{"a", 2, 0}, KeyCount{"b", 1, 0})
	feed(59, "b", "b", "c")
	check(59, 0, KeyCount{"b", 3, 0}, KeyCount{"a", 2, 0})
	feed(60, "c", "c", "c")
	check(61, 0, KeyCount{"c", 4, 0}, KeyCount{"b", 3, 0}) // young: both windows
	check(89, 0, KeyCount{"c", 4, 0}, KeyCount{"b", 3, 0})
	check(90, 60, KeyCount{"c", 3, 0}) // old enough to speak for itself
	check(121, 60, KeyCount{"c", 3, 0})
	check(151, 120)
	feed(300, "d")
	check(301, 240, KeyCount{"d", 1, 0}) // the silence between was counted too
	check(10_000, 9960)
}

func TestKeyWindowsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	const workers, events = 8, 5000
	start := time.Now()
	w := newKeyWindows(start)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for n := range events {
				w.observe(strconv.Itoa(n%7), start)
				if n%1000 == i {
					w.top(5, start)
				}
			}
		})
	}
	all.Wait()
	got := w.top(1, start)
	want := TopKeys{Since: start, Total: workers * events, Counters: keyCounters, Keys: []KeyCount{{Key: "0", Count: workers * (events/7 + 1)}}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestStripesKeepTheBounds counts parts of one stream in different stripes, as happens when many count at a time.
func TestStripesKeepTheBounds(t *testing.T) {
	t.Parallel()
	for name, stream := range streams(keyCounters) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			w, exact, seen := newKeyWindows(start), map[string]uint64{}, 0
			for key := range stream {
				busy := seen % keyStripes
				for i := range busy {
					w.stripes[i].mu.Lock()
				}
				w.observe(key, start)
				for i := range busy {
					w.stripes[i].mu.Unlock()
				}
				exact[key]++
				seen++
			}
			got := w.read(start)
			if got.Total != uint64(seen) {
				t.Errorf("total is %d, want %d", got.Total, seen)
			}
			verify(t, got.Keys, got.Total, keyCounters, exact)
			if used := w.stripes[keyStripes-1].current.total; used == 0 {
				t.Error("all events went to the first stripes")
			}
		})
	}
}

// BenchmarkObserve measures one event, lock included. The keys are made beforehand, each in memory of its own in the order of
// their use: the name of a request has just been read, and is not to be fetched from far away.
func BenchmarkObserve(b *testing.B) {
	const distinct, events = 200_000, 1 << 20
	names := make([]string, distinct)
	for i := range names {
		names[i] = "username" + strconv.Itoa(i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	zipf := func(s float64) func(int) int {
		z := rand.NewZipf(random, s, 1, distinct-1)
		return func(int) int { return int(z.Uint64()) }
	}
	for _, bench := range []struct {
		name string
		next func(i int) int
	}{
		{"zipf=1.01", zipf(1.01)},
		{"zipf=1.2", zipf(1.2)},
		{"one-hot-of-2", func(i int) int { return i % 2 * random.IntN(distinct) }},
		{"all-different", func(i int) int { return i % distinct }},
	} {
		stream := make([]string, events)
		for i := range stream {
			stream[i] = strings.Clone(names[bench.next(i)])
		}
		now := time.Now()
		b.Run(bench.name, func(b *testing.B) {
			w := newKeyWindows(now)
			i := 0
			for b.Loop() {
				w.observe(stream[i&(events-1)], now)
				i++
			}
		})
		b.Run(bench.name+"/parallel", func(b *testing.B) {
			w := newKeyWindows(now)
			b.RunParallel(func(pb *testing.PB) {
				for i := random.IntN(events); pb.Next(); i++ {
					w.observe(stream[i&(events-1)], now)
				}
			})
		})
	}
}

func BenchmarkTop(b *testing.B) {
	now := time.Now()
	w := newKeyWindows(now)
	for i := range 10_000 {
		w.observe(strconv.Itoa(i), now)
	}
	for b.Loop() {
		w.top(maxTopKeys, now)
	}
}
