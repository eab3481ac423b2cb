package postgres

import (
	"cmp"
	"slices"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// tableUse is what happened to one table of names over the window.
type tableUse struct {
	shard, name          string
	scans, rows, byIndex probes.Number
	inserted, failed     probes.Number
	live, dead           probes.Number
	unindexed            probes.Number
}

// uses pairs the tables of a shard. It is an error when they cannot be told.
func (s shard) uses() ([]tableUse, string) {
	switch {
	case s.last.tablesErr != nil:
		return nil, s.last.tablesErr.Error()
	case len(s.last.tables) == 0:
		return nil, "it has no table of names that the agent's role may know of"
	}
	before := map[string]source.Record{}
	for _, r := range s.first.tables {
		before[r.Text("name")] = r
	}
	all := make([]tableUse, 0, len(s.last.tables))
	for _, r := range s.last.tables {
		all = append(all, newTableUse(s, before[r.Text("name")], r))
	}
	return all, ""
}

func newTableUse(s shard, first, last source.Record) tableUse {
	delta := func(column string) probes.Number { return s.span.Delta(first.Number(column), last.Number(column)) }
	u := tableUse{
		shard: s.name, name: last.Text("name"), scans: delta("scans"), byIndex: delta("by_index"), inserted: delta("inserted"),
		live: last.Number("live"), dead: last.Number("dead"), unindexed: probes.Known(1),
	}
	switch {
	case last.Is("indexed"):
		u.unindexed = probes.Known(0)
	case last.Text("indexed") == "":
		u.unindexed = probes.Unknown(u.name + " has no such column for names as the step is told")
	}
	u.rows = delta("scanned").Over(u.scans, "nothing was read as a whole")
	// A vacuum takes dead rows away, and the difference with them.
	grown := delta("dead")
	if first.Text("vacuums") != last.Text("vacuums") {
		grown = probes.Absent("the table was vacuumed within the window")
	}
	u.failed = grown.Minus(delta("updated")).Minus(delta("deleted")).Clamp(0, 1e18)
	return u
}

// recordTables records how the tables of names are read and written.
func recordTables(rec *probes.Recorder, shards []shard) {
	var all []tableUse
	number := func(of func([]tableUse) probes.Number) func(shard) probes.Number {
		return func(s shard) probes.Number {
			uses, why := s.uses()
			if why != "" {
				return probes.Unknown(why)
			}
			return of(uses)
		}
	}
	total := func(of func(tableUse) probes.Number) func(shard) probes.Number {
		return number(func(uses []tableUse) probes.Number {
			n := probes.Known(0)
			for _, u := range uses {
				n = n.Plus(of(u))
			}
			return n
		})
	}
	failed := total(func(u tableUse) probes.Number { return u.failed })
	rec.Set("inserts_rate", over(shards, func(s shard) probes.Number {
		return s.span.PerSecond(total(func(u tableUse) probes.Number { return u.inserted })(s))
	}, sum))
	rec.Set("failed_inserts_rate", over(shards, func(s shard) probes.Number { return s.span.PerSecond(failed(s)) }, sum))
	rec.Set("dead_rows_ratio", over(shards, number(func(uses []tableUse) probes.Number {
		dead, rows := probes.Known(0), probes.Known(0)
		for _, u := range uses {
			dead, rows = dead.Plus(u.dead), rows.Plus(u.live).Plus(u.dead)
		}
		return dead.Over(rows.Higher(probes.Known(1)), "")
	}), highest))
	rec.Set("unindexed_tables", over(shards, total(func(u tableUse) probes.Number { return u.unindexed }), sum))
	scans := over(shards, number(func(uses []tableUse) probes.Number {
		n := probes.Known(0)
		for _, u := range uses {
			n = n.Higher(u.scans)
		}
		return n
	}), highest)
	rec.Set("table_scans", scans)
	for _, s := range shards {
		if s.err() != nil {
			continue
		}
		if uses, why := s.uses(); why == "" {
			all = append(all, uses...)
		}
		if v := failed(s); v.Or(0) >= 1 {
			row(rec, tableFailed, s.name, v, probes.Count, "rows inserted and rolled back in the window")
		}
	}
	recordScans(rec, all, scans)
}

// recordScans records the table that was read most as a whole: by how much of it,
// as a scan of a few rows is what a planner chooses for a small table.
func recordScans(rec *probes.Recorder, all []tableUse, scans probes.Number) {
	if _, ok := scans.Get(); !ok || len(all) == 0 {
		rec.Miss(scans.Why(), "table_scan_rows", "table_scan_share")
		return
	}
	read := func(u tableUse) float64 { return u.scans.Or(0) * u.rows.Or(0) }
	slices.SortStableFunc(all, func(a, b tableUse) int {
		return cmp.Or(cmp.Compare(b.unindexed.Or(0), a.unindexed.Or(0)), cmp.Compare(read(b), read(a)))
	})
	worst := slices.MaxFunc(all, func(a, b tableUse) int {
		return cmp.Or(cmp.Compare(a.scans.Or(0), b.scans.Or(0)), cmp.Compare(read(a), read(b)))
	})
	rows := worst.rows
	if worst.scans.Or(0) == 0 {
		rows = probes.Known(0)
	}
	rec.Set("table_scan_rows", rows)
	rec.Set("table_scan_share", worst.scans.Over(worst.scans.Plus(worst.byIndex).Higher(probes.Known(1)), "").Clamp(0, 1))
	for _, u := range all[:min(len(all), maxRows)] {
		if u.unindexed.Or(0) == 0 && u.scans.Or(0) == 0 {
			continue
		}
		note := "readings as a whole in the window, of %.0f rows each"
		if u.unindexed.Or(0) > 0 {
			note += "; it has no valid unique index"
		}
		row(rec, tableScans, u.name+" on "+u.shard, u.scans, probes.Count, note, u.rows.Or(0))
	}
}
