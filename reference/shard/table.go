package shard

import (
	"fmt"

	"github.com/regpath/diagnose/reference/name"
)

// SubTables is the number of tables that one physical shard spreads its names over.
const SubTables = 16

// table is one sub-table with the statements that both databases share. The placeholders occur in ascending order, for
// SQLite numbers them by occurrence.
type table struct{ name, lookup, names string }

// tables lists the sub-tables names_00 to names_15.
func tables() [SubTables]table {
	var all [SubTables]table
	for i := range all {
		name := fmt.Sprintf("names_%02d", i)
		all[i] = table{
			name: name,
			// In the same point query the shard says whether it answers for the name.
			lookup: "SELECT b.reads & $1, n.user_id, n.created_at, n.state, n.recyclable_at FROM buckets AS b LEFT JOIN " + name +
				" AS n ON n.username = $2 WHERE b.bucket = $3",
			names: "SELECT username FROM " + name,
		}
	}
	return all
}

// The condition of the partial index on the end of cool-downs, as it must stand in every query that is to use it.
var isReleased = fmt.Sprintf("state = %d", name.Released)
