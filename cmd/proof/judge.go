package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/reference/name"
)

// verdict counts what is wrong, and what a campaign came to.
type verdict struct {
	acknowledged   int // names that a user was told are his
	unacknowledged int // names that have an owner whom no answer reached
	owners         int // names without exactly one owner, or with another than was told
	events         int // registrations that were not told of exactly once
	missing        int // names that a filter lacks, over all filters
	// converging is how long after the last registration it was until no filter lacked a name, or until there was no more
	// time to wait.
	converging time.Duration
}

// ledger is what the databases hold: name to user ids.
type ledger map[string][]string

// judge compares what users were told with what is there, in the databases
// themselves and in the filter of every instance that lives.
func (r *registrations) judge(ctx context.Context, c *campaign, out io.Writer) (verdict, error) {
	var v verdict
	names := make([]string, r.names)
	for i := range names {
		names[i] = r.name(i)
	}
	if err := r.filters(ctx, c, names, &v, out); err != nil { // at once: this is timed
		return verdict{}, err
	}
	rows, events := ledger{}, ledger{}
	for i := range c.fleet.postgres.Len() {
		if err := readShard(ctx, c.fleet.postgres.DSN(i), rows, events); err != nil {
			return verdict{}, fmt.Errorf("shard%d: %w", i, err)
		}
	}
	v.compare(names, c.own, rows, events)
	return v, nil
}

// compare counts what does not fit together. A row nobody asked for is as wrong
// as one that is not there.
func (v *verdict) compare(names []string, told, rows, events ledger) {
	for _, n := range names {
		switch owners, said := rows[n], told[n]; {
		case len(owners) != 1 || len(said) > 1:
			v.owners++
		case len(said) == 0:
			v.unacknowledged++
		case said[0] != owners[0]:
			v.owners++
		default:
			v.acknowledged++
		}
		if !slices.Equal(events[n], rows[n]) { // one event for the one owner
			v.events++
		}
	}
	v.owners += max(0, len(rows)-len(names))
	v.events += max(0, len(events)-len(names))
}

// readShard adds the names of one shard and their registrations in its outbox.
func readShard(ctx context.Context, dsn string, rows, events ledger) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only read
	found, err := conn.Query(ctx, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^names_[0-9]+$' ORDER BY relname")
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	arms := make([]string, len(tables))
	for i, t := range tables {
		arms[i] = "SELECT username, user_id FROM " + pgx.Identifier{t}.Sanitize()
	}
	if err := rows.read(ctx, conn, strings.Join(arms, " UNION ALL ")); err != nil {
		return err
	}
	return events.read(ctx, conn, "SELECT username, user_id FROM outbox WHERE state = "+strconv.Itoa(int(name.Claimed)))
}

func (l ledger) read(ctx context.Context, conn *pgx.Conn, query string) error {
	found, err := conn.Query(ctx, query)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	var n string
	var id int64
	_, err = pgx.ForEachRow(found, []any{&n, &id}, func() error {
		l[n] = append(l[n], strconv.FormatInt(id, 10))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// testBatch is how many names the diagnostic contract lets one call test.
const testBatch = 20_000

// filters counts the names that the filters of living instances lack, until there are none or the time given to the news
// is over.
func (r *registrations) filters(ctx context.Context, c *campaign, names []string, v *verdict, out io.Writer) error {
	for started := time.Now(); ; {
		v.missing = 0
		for _, i := range c.fleet.instances {
			if i.dead.Load() {
				continue
			}
			for batch := range slices.Chunk(names, testBatch) {
				n, err := c.users.missing(ctx, i.url, batch)
				if err != nil {
					return err
				}
				v.missing += n
			}
		}
		v.converging = time.Since(started)
		if _, err := fmt.Fprintf(out, "filters lack %d names %s after the last registration\n", v.missing, v.converging.Round(time.Millisecond)); err != nil {
			return err
		}
		if v.missing == 0 || v.converging > r.catchUp {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}
