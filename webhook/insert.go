package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// rowsAtOnce is how many rows one statement inserts: each statement is a journey
// to Postgres and back, and a storm has thousands of rows. SQLite gains nothing by
// it, and looks every argument up among those before it: more would cost it time.
const rowsAtOnce = 20

// insert adds rows to a table with few statements; on says what becomes of rows
// that are there already. None of the rows may be among them twice.
func insert(ctx context.Context, tx *sql.Tx, table, columns, on string, rows [][]any) error {
	var stmt *sql.Stmt // the end of the transaction closes it
	size := 0
	for batch := range slices.Chunk(rows, rowsAtOnce) {
		if len(batch) != size {
			var err error
			size = len(batch)
			query := "INSERT INTO " + table + " (" + columns + ") VALUES " + placeholders(size, len(batch[0])) + " " + on
			if stmt, err = tx.PrepareContext(ctx, query); err != nil {
				return fmt.Errorf("insert into %s: %w", table, err)
			}
		}
		if _, err := stmt.ExecContext(ctx, slices.Concat(batch...)...); err != nil {
			return fmt.Errorf("insert into %s: %w", table, err)
		}
	}
	return nil
}

// placeholders spells so many rows of arguments: ($1,$2), ($3,$4).
func placeholders(rows, columns int) string {
	var b strings.Builder
	for i := range rows * columns {
		switch {
		case i%columns > 0:
			b.WriteByte(',')
		case i > 0:
			b.WriteString("), (")
		default:
			b.WriteByte('(')
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i + 1))
	}
	b.WriteByte(')')
	return b.String()
}
