package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// bypassed is how many names of each shard somebody frees behind the service.
const bypassed = 20

// openShard opens shard i as an operator would, beside the service.
func (p *Path) openShard(i int) (*sql.DB, error) {
	driver, source := "pgx", ""
	if len(p.ShardDSNs) > 0 {
		source = p.ShardDSNs[i]
	} else {
		driver, source = "sqlite", "file:"+p.shardFiles[i]+"?_pragma=busy_timeout(5000)&_txlock=immediate"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("open shard%d: bad data source", i) // the cause may repeat a password
	}
	return db, nil
}

// bypass frees names by SQL alone: no event, no cool-down, no cache that hears of it. restore gives them back to their
// owners.
func (p *Path) bypass(ctx context.Context) (restore func(context.Context) error, err error) {
	var rows []shard.Row
	restore = func(ctx context.Context) error { return p.giveBack(ctx, rows) }
	for i := range p.Service.Shards.Len() {
		freed, err := p.freeBehind(ctx, i)
		rows = append(rows, freed...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("shard%d: %w", i, err), restore(ctx))
		}
	}
	return restore, nil
}

func (p *Path) freeBehind(ctx context.Context, i int) (rows []shard.Row, err error) {
	db, err := p.openShard(i)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	past := time.Now().Add(-time.Second)
	end := any(past)
	if len(p.ShardDSNs) == 0 {
		end = past.UnixMicro()
	}
	found, err := db.QueryContext(ctx, fmt.Sprintf(`UPDATE names_00 SET state = %d, recyclable_at = $1
		WHERE username IN (SELECT username FROM names_00 WHERE state = %d LIMIT %d) RETURNING username, user_id`,
		name.Released, name.Claimed, bypassed), end)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		r := shard.Row{CreatedAt: past, State: name.Claimed}
		if err := found.Scan(&r.Name, &r.UserID); err != nil {
			return rows, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// giveBack makes the names their owners' again, those included that were made available meanwhile and that nobody has
// taken.
func (p *Path) giveBack(ctx context.Context, rows []shard.Row) error {
	for _, r := range rows {
		db, err := p.openShard(p.Service.Shards.Owner(r.Name))
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, fmt.Sprintf(`UPDATE names_00 SET state = %d, recyclable_at = NULL
			WHERE username = $1 AND user_id = $2 AND state = %d`, name.Claimed, name.Released), r.Name, r.UserID)
		if err = errors.Join(err, db.Close()); err != nil {
			return fmt.Errorf("give %s back: %w", r.Name, err)
		}
	}
	_, err := p.Service.Shards.Seed(ctx, func(yield func(shard.Row) bool) {
		for _, r := range rows {
			if !yield(r) {
				return
			}
		}
	})
	return err
}
