package source

import (
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/regpath/diagnose/probes"
)

// Record is one row of an answer in SQL, by column. A NULL is left out.
type Record map[string]string

// Text returns a column as text; empty when it is NULL or not there.
func (r Record) Text(column string) string { return r[column] }

// Number returns a column as a number, which may be negative; unknown when it is
// no number, and absent when it is NULL or not there.
func (r Record) Number(column string) probes.Number {
	text, ok := r[column]
	if !ok {
		return probes.Number{}.Named(column)
	}
	if magnitude, negative := strings.CutPrefix(text, "-"); negative {
		return probes.Known(0).Minus(probes.ParseNumber(magnitude)).Named(column)
	}
	return probes.ParseNumber(text).Named(column)
}

// Is reports whether a column holds the truth value true.
func (r Record) Is(column string) bool { return r[column] == "t" }

// records turns what came over the wire, all of it text, into records. Of several
// results the last with columns counts.
func records(results []*pgconn.Result) []Record {
	var out []Record
	for _, result := range results {
		if len(result.FieldDescriptions) == 0 {
			continue
		}
		out = make([]Record, 0, len(result.Rows))
		for _, row := range result.Rows {
			r := make(Record, len(row))
			for i, value := range row {
				if value != nil {
					r[result.FieldDescriptions[i].Name] = string(value)
				}
			}
			out = append(out, r)
		}
	}
	return out
}
