package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// pageBytes is PostgreSQL's default block size; tuplesPerPage the most line pointers a page of that size has room for
	// (MaxHeapTuplesPerPage in the server's htup_details.h).
	pageBytes     = 8192
	tuplesPerPage = 291
	// rowsPerPage is about how many rows of these tables fit in a page: 24 bytes of header, a name of 8 to 16, two words, a
	// line pointer of 4.
	rowsPerPage = 130
)

// Sample implements [Store]. It reads rows at random physical places (ctid), so many per table that most of what is asked
// for is found. OFFSET 0 keeps the planner from turning the fetches into a scan of the whole table. TABLESAMPLE SYSTEM would
// hash the number of every page and take whole pages of rows that were registered in the same minute; a random start in the
// index would prefer names that follow a gap.
func (p *Postgres) Sample(ctx context.Context, n int, before time.Time) ([]Row, error) {
	if n <= 0 {
		return nil, nil
	}
	conn, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.release(conn)

	var sizes pgx.Batch
	for _, t := range p.tables {
		sizes.Queue("SELECT pg_relation_size($1::text::regclass)", t.name)
	}
	results := conn.SendBatch(ctx, &sizes)
	var pages [SubTables]int
	for i := range pages {
		var bytes int
		if err := results.QueryRow().Scan(&bytes); err != nil {
			return nil, fmt.Errorf("sample: %w", errors.Join(err, results.Close()))
		}
		pages[i] = bytes / pageBytes
	}
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}

	var found []Row
	var fetch pgx.Batch
	quota := perTable(n)
	for i, t := range p.tables {
		if pages[i] == 0 {
			continue
		}
		query := "SELECT DISTINCT n.* FROM unnest($1::text[]) AS place, LATERAL" +
			" (SELECT username, user_id, created_at, state, recyclable_at FROM " + t.name + " WHERE ctid = place::tid OFFSET 0) AS n" +
			" WHERE n.created_at < $2"
		fetch.Queue(query, randomPlaces(pages[i], quota), before).Query(func(rows pgx.Rows) error {
			some, err := pgx.CollectRows(rows, sampledRow)
			found = append(found, pick(some, quota)...)
			return err
		})
	}
	if err := conn.SendBatch(ctx, &fetch).Close(); err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	return pick(found, n), nil
}

// randomPlaces lists tuple identifiers, "(page,line)", among which about four times want hold a row; all of them where the
// table is small enough.
func randomPlaces(pages, want int) []string {
	points := max(4*want*tuplesPerPage/rowsPerPage, 2*tuplesPerPage)
	places := make([]string, 0, points)
	place := func(page, line int) {
		places = append(places, "("+strconv.Itoa(page)+","+strconv.Itoa(line+1)+")")
	}
	if pages*tuplesPerPage <= points {
		for i := range pages * tuplesPerPage {
			place(i/tuplesPerPage, i%tuplesPerPage)
		}
		return places
	}
	for range points {
		place(rand.IntN(pages), rand.IntN(tuplesPerPage))
	}
	return places
}

// sampledRow reads one row of the query of Sample.
func sampledRow(row pgx.CollectableRow) (r Row, err error) {
	var recyclableAt *time.Time
	err = row.Scan(&r.Name, &r.UserID, &r.CreatedAt, &r.State, &recyclableAt)
	r.CreatedAt = r.CreatedAt.UTC()
	if recyclableAt != nil {
		r.RecyclableAt = recyclableAt.UTC()
	}
	return r, err
}
