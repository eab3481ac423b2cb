package shard

import (
	"cmp"
	"slices"
)

// MergeTopKeys joins what several instances tell of one shard's keys, and keeps the bounds honest: a key that an instance does
// not list may have been seen there as often as the last key that it does list, or, where it lists all it knows, Total/Counters
// times. That much is added to the key's count and to its error, so that its true count still lies in [Count-Error, Count].
// Since is the earliest beginning; instances whose windows differ are added up all the same.
func MergeTopKeys(instances ...TopKeys) TopKeys {
	var merged TopKeys
	unseen, base := make([]uint64, len(instances)), uint64(0)
	for i, t := range instances {
		if merged.Since.IsZero() || t.Since.Before(merged.Since) {
			merged.Since = t.Since
		}
		merged.Total += t.Total
		if merged.Counters == 0 || t.Counters < merged.Counters {
			merged.Counters = t.Counters
		}
		unseen[i] = t.unseen()
		base += unseen[i]
	}
	at := map[string]int{}
	for i, t := range instances {
		for _, k := range t.Keys {
			j, known := at[k.Key]
			if !known {
				j = len(merged.Keys)
				at[k.Key] = j
				merged.Keys = append(merged.Keys, KeyCount{Key: k.Key, Count: base, Error: base})
			}
			merged.Keys[j].Count += k.Count - unseen[i]
			merged.Keys[j].Error += k.Error - unseen[i] // wraps around and back: the sum is never below zero
		}
	}
	sortKeys(merged.Keys)
	merged.Keys = merged.Keys[:min(maxTopKeys, len(merged.Keys))]
	return merged
}

// unseen is how often a key that t does not list may have been seen.
func (t TopKeys) unseen() uint64 {
	switch {
	case t.Total == 0 || t.Counters == 0:
		return 0
	case len(t.Keys) >= maxTopKeys:
		return max(t.Keys[len(t.Keys)-1].Count, t.Total/uint64(t.Counters))
	}
	return t.Total / uint64(t.Counters)
}

// sortKeys sorts by descending count, and of equal counts the surer first.
func sortKeys(keys []KeyCount) {
	slices.SortFunc(keys, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Key, b.Key))
	})
}
