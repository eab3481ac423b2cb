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
	for len(rows) > 0 {
		// As many as there are in one statement, or in several that are alike.
		size := min(len(rows), rowsAtOnce)
		alike := rows[:len(rows)/size*size]
		rows = rows[len(alike):]
		query := "INSERT INTO " + table + " (" + columns + ") VALUES " + placeholders(size, len(alike[0])) + " " + on
		if err := execEach(ctx, tx, query, slices.Collect(slices.Chunk(alike, size))); err != nil {
			return fmt.Errorf("insert into %s: %w", table, err)
		}
	}
	return nil
}

// execEach runs a statement once for each batch of rows. To prepare it is a journey
// of its own, worth it where there are several.
func execEach(ctx context.Context, tx *sql.Tx, query string, batches [][][]any) error {
	exec := func(args ...any) (sql.Result, error) { return tx.ExecContext(ctx, query, args...) }
	if len(batches) > 1 {
		stmt, err := tx.PrepareContext(ctx, query) // the end of the transaction closes it
		if err != nil {
			return err
		}
		exec = func(args ...any) (sql.Result, error) { return stmt.ExecContext(ctx, args...) }
	}
	for _, batch := range batches {
		if _, err := exec(slices.Concat(batch...)...); err != nil {
			return err
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
