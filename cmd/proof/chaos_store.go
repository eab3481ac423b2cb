package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/regpath/diagnose/reference/local"
)

// chaosStore is where agents keep what they were told.
type chaosStore struct {
	where  string // as a configuration names it
	agents int    // how many share it
	// fill has the store take nothing more, and returns what makes room again.
	fill  func(ctx context.Context, victim *chaosAgent) (room func() error, err error)
	close func() error
}

// sqliteStore is a file of one agent.
func sqliteStore(dir string) *chaosStore {
	return &chaosStore{
		where: filepath.Join(dir, "diagnose.db"), agents: 1,
		// The agent's files cannot grow any more, as on a full disk.
		fill: func(_ context.Context, victim *chaosAgent) (func() error, error) {
			limit := func(bytes uint64) error {
				// Only the soft limit: it must be possible to raise it again.
				if err := unix.Prlimit(victim.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: math.MaxUint64}, nil); err != nil {
					return fmt.Errorf("limit the agent's files: %w", err)
				}
				return nil
			}
			return func() error { return limit(math.MaxUint64) }, limit(0)
		},
		close: func() error { return nil },
	}
}

// postgresStore is a private server that two agents share.
func postgresStore(ctx context.Context) (*chaosStore, error) {
	server, err := local.StartPostgres(ctx, local.PostgresOptions{Shards: 1, Durable: true})
	if err != nil {
		return nil, err
	}
	where := server.DSNs()[0]
	return &chaosStore{
		where: where, agents: 2,
		// The server refuses all that writes, as it does when its disk is full.
		fill: func(ctx context.Context, _ *chaosAgent) (func() error, error) {
			return func() error { return readOnly(context.WithoutCancel(ctx), where, false) }, readOnly(ctx, where, true)
		},
		close: server.Close,
	}, nil
}

// readOnly has the server refuse to write, or not.
func readOnly(ctx context.Context, dsn string, on bool) (err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to the store: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, q := range []string{fmt.Sprintf("ALTER SYSTEM SET default_transaction_read_only = %t", on), "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}
