package postgres

import (
	"errors"
	"fmt"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// err is why the shard could not be asked, at the end of the window or at its
// beginning.
func (s shard) err() error { return s.last.err }

// recordReach records which shards answered.
func recordReach(rec *probes.Recorder, shards []shard) {
	var asked, refused float64
	for _, s := range shards {
		switch {
		case s.err() == nil:
			asked++
		case errors.Is(s.err(), source.ErrNoSlot):
			refused++
			rec.Row(probes.Row{Table: tableFull, Key: s.name, Value: 1, Unit: probes.Bool, Note: s.err().Error()})
		}
	}
	rec.Set("shards_asked", probes.Known(asked))
	slots := probes.Known(refused)
	if len(shards) == 0 {
		slots = probes.Absent(noShard)
	}
	rec.Set("slots_refused", slots)
}

const noShard = "no Postgres shard is configured: set their DSNs to ask them directly"

// over folds a number of every shard that answers into one. It is unknown when one
// of them does not tell, or when none answers.
func over(shards []shard, number func(shard) probes.Number, fold func(a, b probes.Number) probes.Number) probes.Number {
	all := probes.Absent(noShard)
	none := true
	for _, s := range shards {
		if source.Dead(s.err()) {
			if none {
				all = probes.Unknown(fmt.Sprintf("%s: %v", s.name, s.err()))
			}
			continue
		}
		var n probes.Number
		if err := s.err(); err != nil {
			n = source.Lacking(err)
		} else {
			n = number(s)
		}
		n = n.After(s.name + ": ")
		if none {
			all, none = n, false
		} else {
			all = fold(all, n)
		}
	}
	return all
}

func sum(a, b probes.Number) probes.Number     { return a.Plus(b) }
func highest(a, b probes.Number) probes.Number { return a.Higher(b) }

// count counts the shards for which is holds; it is unknown when one that answers
// does not tell.
func count(shards []shard, is func(shard) probes.Number) probes.Number {
	return over(shards, func(s shard) probes.Number {
		n := is(s)
		if v, ok := n.Get(); ok && v > 0 {
			return probes.Known(1)
		}
		return n
	}, sum)
}

// row adds a row about a shard.
func row(rec *probes.Recorder, table, shard string, value probes.Number, unit probes.Unit, format string, args ...any) {
	v, ok := value.Get()
	rec.Row(probes.Row{Table: table, Key: clip(shard), Value: v, Unit: unit, Unknown: !ok, Note: fmt.Sprintf(format, args...)})
}

const (
	// maxRows is how many rows a table lists.
	maxRows = 8
	// maxRunes is how much of a text from outside a row holds.
	maxRunes = 64
)

// clip cuts what comes from outside to a length that a row can hold.
func clip(s string) string {
	runes := []rune(s)
	if len(runes) <= maxRunes {
		return s
	}
	return string(runes[:maxRunes-1]) + "…"
}
