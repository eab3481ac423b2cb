package shard

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestMergeTopKeysKeepsItsBounds lets three instances count skewed streams, so many different keys that each knows only some.
func TestMergeTopKeysKeepsItsBounds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	random := rand.New(rand.NewPCG(1, 2))
	exact := map[string]uint64{}
	var told []TopKeys
	total := 0
	for i, events := range []int{100_000, 30_000, 500} {
		zipf := rand.NewZipf(random, 1.1+float64(i)/10, 1, 100_000)
		w := newKeyWindows(now.Add(time.Duration(-i) * time.Second))
		for range events {
			key := strconv.Itoa(int(zipf.Uint64()))
			w.observe(key, now)
			exact[key]++
			total++
		}
		told = append(told, w.top(maxTopKeys, now))
	}
	merged := MergeTopKeys(told...)
	if merged.Total != uint64(total) || !merged.Since.Equal(now.Add(-2*time.Second)) || merged.Counters != keyCounters || len(merged.Keys) != maxTopKeys {
		t.Errorf("total %d, since %v, %d counters, %d keys", merged.Total, merged.Since, merged.Counters, len(merged.Keys))
	}
	for _, k := range merged.Keys {
		if n := exact[k.Key]; n > k.Count || k.Error > k.Count || n < k.Count-k.Error {
			t.Errorf("key %s: counted %d with error %d, but it was seen %d times", k.Key, k.Count, k.Error, n)
		}
	}
	if got := merged.Keys[0]; got.Key != "0" || got.Error > got.Count/10 {
		t.Errorf("the first key is %+v, want 0 with a small error", got)
	}
}

func TestMergeTopKeysOfFewKeysIsExact(t *testing.T) {
	t.Parallel()
	one := TopKeys{Total: 7, Counters: 1000, Keys: []KeyCount{{"love", 5, 0}, {"cat", 2, 0}}}
	two := TopKeys{Total: 4, Counters: 1000, Keys: []KeyCount{{"cat", 4, 1}}}
	got := MergeTopKeys(one, TopKeys{Counters: 1000}, two)
	if want := []KeyCount{{"cat", 6, 1}, {"love", 5, 0}}; !slices.Equal(got.Keys, want) || got.Total != 11 {
		t.Errorf("merged are %v of %d, want %v of 11", got.Keys, got.Total, want)
	}
	if got := MergeTopKeys(); got.Total != 0 || len(got.Keys) != 0 {
		t.Errorf("nothing merged is %+v", got)
	}
}
