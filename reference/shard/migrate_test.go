package shard_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// checkMigrated opens, several times, a place that was made before names had states, with one name in it.
func checkMigrated(t *testing.T, open func() shard.Store) {
	t.Helper()
	for range 3 {
		s := open()
		if row, found := mustLookup(t, s, "love"); !found || row != (shard.Row{Name: "love", UserID: 7, CreatedAt: epoch, State: name.Claimed}) {
			t.Fatalf("the row of before is %+v, %t", row, found)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	if mustClaim(t, s, shard.Row{Name: "love", UserID: 8, CreatedAt: epoch}) {
		t.Error("a name of before was given away")
	}
	if !mustMove(t, s, shard.Move{Name: "love", From: name.Claimed, To: name.Released, UserID: 7, At: epoch}) {
		t.Error("a name of before, whose user has no row, could not be released")
	}
	if !mustClaim(t, s, shard.Row{Name: "baby", UserID: 9, CreatedAt: epoch}) {
		t.Error("a new name was not to be had")
	}
	if got := outbox(t, s); len(got) != 2 || got[0].UserID != 7 || got[1].UserID != 9 {
		t.Errorf("the outbox has %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func checkMigratePostgres(t *testing.T, pg *local.Postgres) {
	conn, err := pgx.Connect(t.Context(), pg.DSN(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE SCHEMA before")
	for i := range shard.SubTables {
		exec(fmt.Sprintf(`CREATE TABLE before.names_%02d
			(username text COLLATE "C" PRIMARY KEY, user_id bigint NOT NULL, created_at timestamptz NOT NULL)`, i))
	}
	exec(fmt.Sprintf("INSERT INTO before.names_%02d VALUES ('love', 7, $1)", shard.SubTable("love")), epoch)
	checkMigrated(t, func() shard.Store {
		s, err := shard.OpenPostgres(t.Context(), pg.DSN(0)+"&search_path=before", shard.PostgresOptions{PoolSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestMigrateSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "before")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	for i := range shard.SubTables {
		exec(fmt.Sprintf("CREATE TABLE names_%02d (username TEXT NOT NULL UNIQUE, user_id INTEGER NOT NULL, created_at INTEGER NOT NULL)", i))
	}
	exec(fmt.Sprintf("INSERT INTO names_%02d VALUES ('love', 7, ?)", shard.SubTable("love")), epoch.UnixMicro())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	checkMigrated(t, func() shard.Store {
		s, err := shard.OpenSQLite(t.Context(), path, shard.SQLiteOptions{PoolSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
