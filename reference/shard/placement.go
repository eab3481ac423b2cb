package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrMoved says that a shard refuses a call because, as it knows, the name has its home elsewhere or is on its way there:
// nothing was done. Whoever asked has an old routing table; with the new one the call may be repeated. A [Cluster] does so
// by itself.
var ErrMoved = errors.New("the name has moved to another shard")

// ErrStaleTable says that a routing table was to be changed by somebody who does not know its newest version, or that a
// change is worked at by somebody else since. Nothing was done.
var ErrStaleTable = errors.New("the routing table has changed meanwhile")

// Placement is what a shard knows of routing: the table, what it holds of each bucket, and the notes of what has to be carried
// to another shard. It is the affair of a [Cluster] alone.
type Placement struct{ db sessions }

// sessions runs transactions on the one connection of a session, in either database.
type sessions interface {
	// transact runs work in a transaction, which is rolled back when work fails.
	transact(ctx context.Context, work func(session) error) error
	// locks are the clauses that keep what a transaction reads as it is until it ends, against writers and against everybody.
	// SQLite needs none: it has one writer at a time.
	locks() (share, update string)
	// exclude waits for the shared transactions of claims under way and keeps others from beginning until this one ends.
	exclude(ctx context.Context, s session) error
}

// session runs statements. Placeholders are numbered in the order of their occurrence.
type session interface {
	exec(ctx context.Context, sql string, args ...any) (changed int64, err error)
	// query calls scan for every row, with the function that reads its columns.
	query(ctx context.Context, scan func(read func(columns ...any) error) error, sql string, args ...any) error
}

// placementTables are made together with the tables of names. A shard that no cluster has taken into its routing has version 0
// and accepts every name.
func placementTables(noteID string) string {
	values := make([]string, Buckets)
	for b := range values {
		values[b] = fmt.Sprintf("(%d,0,%[2]d,%[2]d,0,0)", b, allParts)
	}
	return `
	CREATE TABLE IF NOT EXISTS routing (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), version BIGINT NOT NULL, shard INTEGER NOT NULL, document TEXT NOT NULL);
	CREATE TABLE IF NOT EXISTS notes (id ` + noteID + `, username TEXT NOT NULL);
	CREATE TABLE IF NOT EXISTS buckets (bucket INTEGER PRIMARY KEY, version BIGINT NOT NULL, reads INTEGER NOT NULL, writes INTEGER NOT NULL,
		noted INTEGER NOT NULL, arriving INTEGER NOT NULL);
	INSERT INTO buckets (bucket, version, reads, writes, noted, arriving) VALUES ` + strings.Join(values, ",") + ` ON CONFLICT DO NOTHING;`
}

// placed is the routing table that a shard has, and as which shard of it. Without one the version is 0.
type placed struct {
	shard int
	table RoutingTable
}

// stored reads the shard's routing table.
func (p Placement) stored(ctx context.Context) (got placed, err error) {
	err = p.db.transact(ctx, func(s session) error {
		got, err = readPlaced(ctx, s, "")
		return err
	})
	if err != nil {
		return placed{}, fmt.Errorf("read the routing table: %w", err)
	}
	return got, nil
}

func readPlaced(ctx context.Context, s session, lock string) (got placed, err error) {
	var document string
	err = s.query(ctx, func(read func(...any) error) error { return read(&got.shard, &document) },
		"SELECT shard, document FROM routing"+lock)
	if err != nil || document == "" {
		return got, err
	}
	err = json.Unmarshal([]byte(document), &got.table)
	return got, err
}

// place gives the shard its next routing table, if it still has the version expected, and brings what it holds of the buckets
// into line, all in one transaction. It waits for the writes that are under way in a bucket that changes, and at last for the
// claims under way that share a transaction, of whatever bucket; those that follow see the new state. A shard that has the table already is content.
func (p Placement) place(ctx context.Context, shard, expect int, t RoutingTable) error {
	document, err := json.Marshal(t)
	if err != nil {
		return err
	}
	err = p.db.transact(ctx, func(s session) error {
		_, lock := p.db.locks()
		old, err := readPlaced(ctx, s, lock)
		if err != nil {
			return err
		}
		if old.table.Version == t.Version && old.shard == shard {
			if had, err := json.Marshal(old.table); err != nil || string(had) == string(document) {
				return err
			}
		}
		if old.table.Version != expect {
			return fmt.Errorf("%w: it has version %d, not %d", ErrStaleTable, old.table.Version, expect)
		}
		changed, err := s.exec(ctx, `INSERT INTO routing (only_row, version, shard, document) VALUES (1, $1, $2, $3)
			ON CONFLICT (only_row) DO UPDATE SET version = excluded.version, shard = excluded.shard, document = excluded.document
			WHERE routing.version = $4`, t.Version, shard, string(document), expect)
		if err != nil {
			return err
		}
		if changed == 0 { // two made the first table at the same time
			return ErrStaleTable
		}
		for _, bucket := range touched(old.table, t) {
			if err := hold(ctx, s, t.holding(shard, bucket)); err != nil {
				return err
			}
		}
		return p.db.exclude(ctx, s) // last: while it waits, no claim of any bucket begins
	})
	if err != nil {
		return fmt.Errorf("store routing table version %d: %w", t.Version, err)
	}
	return nil
}

// touched lists the buckets whose holdings may differ between two consecutive tables: all of them at the beginning.
func touched(old, t RoutingTable) []int {
	if old.Version == 0 {
		all := make([]int, Buckets)
		for b := range all {
			all[b] = b
		}
		return all
	}
	var some []int
	if old.Change != nil {
		some = append(some, old.Change.Bucket)
	}
	if t.Change != nil && (old.Change == nil || old.Change.Bucket != t.Change.Bucket) {
		some = append(some, t.Change.Bucket)
	}
	return some
}

func hold(ctx context.Context, s session, h holding) error {
	_, err := s.exec(ctx, "UPDATE buckets SET version = $1, reads = $2, writes = $3, noted = $4, arriving = $5 WHERE bucket = $6",
		h.version, int(h.reads), int(h.writes), int(h.noted), int(h.arriving), h.bucket)
	return err
}

// held reads what the shard holds of a bucket, and keeps it so until the transaction ends.
func (p Placement) held(ctx context.Context, s session, bucket int) (h holding, err error) {
	share, _ := p.db.locks()
	var reads, writes, noted, arriving int
	err = s.query(ctx, func(read func(...any) error) error {
		return read(&h.version, &reads, &writes, &noted, &arriving)
	}, "SELECT version, reads, writes, noted, arriving FROM buckets WHERE bucket = $1"+share, bucket)
	h.bucket, h.reads, h.writes, h.noted, h.arriving = bucket, parts(reads), parts(writes), parts(noted), parts(arriving)
	return h, err
}

// pass lets a mover work at the change that has this version of the table, and no longer than it has.
type pass struct{ bucket, version int }

// work runs a transaction of a mover, if nobody else has taken up the change since or brought it further.
func (p Placement) work(ctx context.Context, by pass, work func(session, holding) error) error {
	return p.db.transact(ctx, func(s session) error {
		h, err := p.held(ctx, s, by.bucket)
		if err != nil {
			return err
		}
		if h.version != by.version {
			return fmt.Errorf("%w: the change of bucket %d is at version %d, not %d", ErrStaleTable, by.bucket, h.version, by.version)
		}
		return work(s, h)
	})
}
