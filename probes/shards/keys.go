package shards

import (
	"cmp"
	"slices"
	"strings"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// minCounted is how many requests a summary of keys must have seen.
	minCounted = 200
	// minExcess is how far above an even share the busiest shard must be for
	// its excess to be more than chance.
	minExcess = 1.1
)

// keys returns the summary with more requests in it: one of the two may have
// begun a moment ago.
func (l load) keys() source.TopKeys {
	if l.first.TopKeys.Total.Or(0) > l.last.TopKeys.Total.Or(0) {
		return l.first.TopKeys
	}
	return l.last.TopKeys
}

// certain returns the lower bound of a key's count, which Space-Saving
// guarantees (A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of
// frequent and top-k elements in data streams", ICDT 2005).
func certain(count, err probes.Number) probes.Number {
	bound := count.Minus(err)
	return bound.If(bound.Or(0) >= 0, "a key's error is larger than its count")
}

// few is how many keys are still a few hot names, and not a part of the shards' map.
const few = 3

// recordKeys records how far the hottest keys explain the busiest shard.
func recordKeys(rec *probes.Recorder, loads []load) {
	hot := busiest(loads)
	top := hot.keys()
	best, sum := hottest(top.Keys)
	total := top.Total.AtLeast(minCounted, "fewer than 200 requests in the busiest shard's summary of keys")
	ofAll := func(count probes.Number) probes.Number {
		share := count.Over(total, "")
		return share.If(share.Or(0) <= 1, "a key's count is larger than the total")
	}
	rec.Set("top_key_share", ofAll(best))
	// Of the shard's requests, 1 - 1/(shards * share) are beyond an even share.
	over := hot.share.Times(probes.Known(float64(len(loads))))
	excess := probes.Known(1).Minus(probes.Known(1).Over(over, ""))
	ofExcess := func(count probes.Number) probes.Number {
		return ofAll(count).Over(excess, "").Clamp(0, 1).
			MootIf(over.Or(minExcess) < minExcess, "requests are spread evenly: there is no excess to explain")
	}
	rec.Set("top_key_excess_share", ofExcess(best))
	rec.Set("top_keys_excess_share", ofExcess(sum))
}

// hottest returns what the hottest key has for certain, and what the few hottest have
// together.
func hottest(keys []source.TopKey) (best, sum probes.Number) {
	bounds := make([]probes.Number, 0, len(keys))
	for _, k := range keys {
		bounds = append(bounds, certain(k.Count, k.Error))
	}
	slices.SortStableFunc(bounds, func(a, b probes.Number) int { return cmp.Compare(b.Or(-1), a.Or(-1)) })
	if len(bounds) == 0 {
		none := probes.Absent("the busiest shard lists no keys")
		return none, none
	}
	best, sum = bounds[0], bounds[0]
	for _, b := range bounds[1:min(few, len(bounds))] {
		sum = sum.Plus(probes.Known(b.Or(0)))
	}
	return best, sum
}

// constants are keys that are a bug in the caller rather than a name
// (ioredis#1574: the hot key was the text "undefined").
var constants = []string{"undefined", "null", "nil", "none", "nan", "true", "false", "[object object]", "%s", "%v", "%d", "<nil>", "${", "{{"}

// suspicious reports whether a key looks like a constant that stands where a
// name should.
func suspicious(key string) bool {
	key = strings.ToLower(strings.TrimSpace(key))
	if key == "" {
		return true
	}
	for _, c := range constants {
		if key == c || strings.ContainsAny(c, "%$[{<") && strings.Contains(key, c) {
			return true
		}
	}
	return false
}
