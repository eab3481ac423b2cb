package shards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// minListed is the share of a shard's requests from which on a key is listed.
const minListed = 0.05

const (
	maxShardRows  = 16
	maxKeyShards  = 4 // shards whose keys are listed
	maxKeysOfOne  = 5
	maxKeyOfOther = 2
	maxKeyRunes   = 64
)

// The tables of the probe.
const (
	tableFailing = "failing" // shards that are down or fail most requests
	tableBusiest = "busiest" // the shard that draws too much, if one does
	tableSlowest = "slowest" // the shard whose requests take longest
	tableFull    = "full pools"
	tableShards  = "shards"
	tableKeys    = "top keys"
)

// skewed is from how many times an even share on a shard draws too much.
const skewed = 1.5

// troubleRows names the shards that a report is likely to be about.
func troubleRows(rec *probes.Recorder, loads []load, answers []answer) {
	named := make(map[string]bool)
	failing := func(shard, note string) {
		if !named[shard] && len(named) < maxShardRows {
			rec.Row(probes.Row{Table: tableFailing, Key: clip(shard), Value: 1, Unit: probes.Bool, Note: note})
		}
		named[shard] = true
	}
	for _, l := range loads {
		if l.failing() {
			failing(l.last.Shard, fmt.Sprintf("%.0f of %.0f requests failed", l.errors.Or(0), l.requests.Or(0)))
		}
	}
	for _, a := range answers {
		if source.Dead(a.err) {
			failing(a.shard, note(answers, a.shard))
		}
	}
	if len(loads) == 0 {
		return
	}
	hot := busiest(loads)
	if share, ok := hot.share.Get(); ok && share*float64(len(loads)) > skewed {
		rec.Row(probes.Row{Table: tableBusiest, Key: clip(hot.last.Shard), Value: share, Unit: probes.Ratio})
	}
}

// byLoad returns the shards, busiest first, in the service's order where equal.
func byLoad(loads []load) []load {
	sorted := slices.Clone(loads)
	slices.SortStableFunc(sorted, func(a, b load) int {
		if c := cmp.Compare(b.requests.Or(-1), a.requests.Or(-1)); c != 0 {
			return c
		}
		return cmp.Compare(b.keys().Total.Or(-1), a.keys().Total.Or(-1))
	})
	return sorted
}

// byTrouble returns the shards that fail first, then the busiest.
func byTrouble(loads []load, answers []answer) []load {
	sorted := byLoad(loads)
	rank := func(l load) int {
		if l.failing() || slices.ContainsFunc(answers, func(a answer) bool { return a.shard == l.last.Shard && source.Dead(a.err) }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(sorted, func(a, b load) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted
}

// shardRows lists the shards, those that fail first, then the busiest.
func shardRows(rec *probes.Recorder, loads []load, answers []answer) {
	for _, l := range byTrouble(loads, answers)[:min(len(loads), maxShardRows)] {
		var notes []string
		row := probes.Row{Table: tableShards, Key: clip(l.last.Shard)}
		requests, counted := l.requests.Get()
		if share, ok := l.share.Get(); ok {
			row.Value, row.Unit = share, probes.Ratio
			notes = append(notes, fmt.Sprintf("%.0f requests", requests))
		} else if counted {
			row.Value = requests
			notes = append(notes, "requests in the window")
		} else {
			since, known := l.last.Requests.Get()
			if row.Value, row.Unknown = since, !known; known {
				notes = append(notes, "requests since the start")
			}
		}
		if v, ok := l.latency.Get(); ok {
			notes = append(notes, milliseconds(v)+" mean")
		}
		if v, ok := l.errors.Get(); ok && v > 0 {
			notes = append(notes, fmt.Sprintf("%.0f failed", v))
		}
		pool := l.last.Pool
		if used, ok := pool.InUse.Get(); ok {
			notes = append(notes, fmt.Sprintf("pool %.0f/%.0f, %.0f waiting", used, pool.Size.Or(0), pool.Pending.Or(0)))
		}
		if l.last.Address != "" {
			notes = append(notes, "at "+l.last.Address)
		}
		if n := note(answers, l.last.Shard); n != "" {
			notes = append(notes, n)
		}
		row.Note = strings.Join(notes, ", ")
		rec.Row(row)
	}
}

// keyRows lists the hottest keys: more of the busiest shard, some of the next.
// Keys that carry no load to speak of are left out: they are people's names,
// and nobody's business.
func keyRows(rec *probes.Recorder, loads []load) {
	for i, l := range byLoad(loads)[:min(len(loads), maxKeyShards)] {
		top := l.keys()
		most := maxKeyOfOther
		if i == 0 {
			most = maxKeysOfOne
		}
		keys := slices.Clone(top.Keys)
		slices.SortStableFunc(keys, func(a, b source.TopKey) int {
			return cmp.Compare(certain(b.Count, b.Error).Or(-1), certain(a.Count, a.Error).Or(-1))
		})
		for _, k := range keys[:min(len(keys), most)] {
			bound, ok := certain(k.Count, k.Error).Get()
			if !ok || bound < minListed*top.Total.Or(0) {
				continue
			}
			text := fmt.Sprintf("%s: %.0f to %.0f of %.0f requests", clip(l.last.Shard), bound, k.Count.Or(0), top.Total.Or(0))
			if suspicious(k.Key) {
				text += "; looks like a constant, not a name"
			}
			rec.Row(probes.Row{Table: tableKeys, Key: clip(k.Key), Value: bound, Note: text})
		}
	}
}

// clip cuts what comes from outside to a length that a row can hold.
func clip(s string) string {
	runes := []rune(strings.ToValidUTF8(s, "\uFFFD"))
	if len(runes) <= maxKeyRunes {
		return string(runes)
	}
	return string(runes[:maxKeyRunes-1]) + "…"
}
