package webhook

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
)

// openKeeping opens an empty database with one connection and a table t of three rows.
func openKeeping(t *testing.T) *sql.DB {
	t.Helper()
	db, err := openStatements(sqliteDSN(filepath.Join(t.TempDir(), "x.db")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	db.SetMaxOpenConns(1)
	mustExec(t, db, `CREATE TABLE t (n INTEGER UNIQUE)`)
	mustExec(t, db, `INSERT INTO t VALUES (1), (2), (3)`)
	return db
}

func mustExec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// kept counts the statements that the only connection keeps; only those with that
// text, unless it is empty.
func kept(t *testing.T, db *sql.DB, query string) int {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := conn.Raw(func(c any) error {
		for text := range c.(*keepingConn).idle {
			if query == "" || text == query {
				n++
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKeptWhileInUse: who asks the same again before the first answer is read gets
// an answer of his own, and one statement is kept.
func TestKeptWhileInUse(t *testing.T) {
	t.Parallel()
	db := openKeeping(t)
	const query = `SELECT n FROM t ORDER BY n`
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	ask := func(then func()) error {
		return each(t.Context(), tx, func(scan func(...any) error) error {
			var n int
			err := scan(&n)
			got += strconv.Itoa(n)
			then()
			return err
		}, query)
	}
	if err := ask(func() {
		if err := ask(func() {}); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if want := "112321233123"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	if n := kept(t, db, query); n != 1 {
		t.Errorf("%d statements are kept, want 1", n)
	}
}

// TestKeptSeesNewColumns: a statement that is kept outlives a change of its tables.
func TestKeptSeesNewColumns(t *testing.T) {
	t.Parallel()
	db := openKeeping(t)
	for want := 1; want <= 3; want++ {
		rows, err := db.QueryContext(t.Context(), `SELECT * FROM t`)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil || len(columns) != want {
			t.Errorf("got columns %v, %v, want %d", columns, err, want)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, fmt.Sprintf(`ALTER TABLE t ADD COLUMN c%d`, want))
	}
}

// TestNotKept: what has failed is prepared anew, and so are pragmas, each of which
// takes effect; and the number of those that are kept is bounded.
func TestNotKept(t *testing.T) {
	t.Parallel()
	db := openKeeping(t)
	const query = `INSERT INTO t VALUES (1)`
	for range 2 {
		if _, err := db.ExecContext(t.Context(), query); err == nil {
			t.Error("a row is there twice")
		}
	}
	if n := kept(t, db, query); n != 0 {
		t.Errorf("%d statements that failed are kept, want none", n)
	}
	for range 2 {
		mustExec(t, db, `PRAGMA query_only = ON`)
		if _, err := db.ExecContext(t.Context(), `DELETE FROM t`); err == nil {
			t.Error("the second pragma of a kind has no effect")
		}
		mustExec(t, db, `PRAGMA query_only = OFF`)
		mustExec(t, db, `DELETE FROM t`)
	}
	for i := range 2 * maxIdle {
		mustExec(t, db, fmt.Sprintf(`INSERT INTO t VALUES (%d)`, i))
	}
	if n := kept(t, db, ""); n != maxIdle {
		t.Errorf("%d statements are kept, want %d", n, maxIdle)
	}
}

// TestKeptAfterInterrupt: a statement cut off by the end of its context does no harm
// to the next one.
func TestKeptAfterInterrupt(t *testing.T) {
	t.Parallel()
	db := openKeeping(t)
	const query = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < $1) SELECT max(n) FROM c`
	ctx, cancel := context.WithCancel(t.Context())
	cut := make(chan error)
	go func() {
		var n int
		cut <- db.QueryRowContext(ctx, query, 1_000_000_000).Scan(&n)
	}()
	eventually(t, "the statement runs", func() bool { return db.Stats().InUse == 1 })
	cancel()
	if err := <-cut; err == nil {
		t.Error("the statement was not cut off")
	}
	var n int
	if err := db.QueryRowContext(t.Context(), query, 10).Scan(&n); err != nil || n != 10 {
		t.Errorf("got %d, %v, want 10", n, err)
	}
}
