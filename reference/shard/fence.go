package shard

import (
	"context"
	"time"

	"github.com/regpath/diagnose/reference/name"
)

// place is the bucket of a name and the bit of its part: what the statements ask the table of buckets for.
func place(name string) (bucket, bit int) { return Bucket(name), 1 << Part(name) }

// found is what a look-up gives: whether the shard answers for the name at all, and the row if there is one.
type found struct {
	answers      int
	userID       *int64
	state        *int16
	created      instant
	recyclableAt instant
}

// columns is where the columns of the query go.
func (f *found) columns() []any {
	return []any{&f.answers, &f.userID, &f.created, &f.state, &f.recyclableAt}
}

// row is the row that was found. It fails with [ErrMoved] where another shard has to be asked.
func (f *found) row(n string) (r Row, ok bool, err error) {
	switch {
	case f.answers == 0:
		return Row{}, false, ErrMoved
	case f.userID == nil || f.state == nil:
		return Row{}, false, nil
	}
	r = Row{Name: n, UserID: *f.userID, CreatedAt: time.UnixMicro(f.created.micros).UTC(), State: name.State(*f.state)}
	if f.recyclableAt.valid {
		r.RecyclableAt = time.UnixMicro(f.recyclableAt.micros).UTC()
	}
	if r.available(time.Now()) {
		return Row{}, false, nil
	}
	return r, true, nil
}

// The parts of a write in PostgreSQL that keep it to the names that the shard holds, where it is a transaction of its own; claims
// that share one hold placementLock. The row of the bucket is locked in share mode: whoever takes the bucket from the shard
// waits for the writes under way, and a write that has waited for that sees what has become of the bucket. The placeholders
// are those of place.
const (
	fenceHere = `here AS (
			SELECT noted & BIT_ <> 0 AS noted FROM buckets WHERE bucket = BUCKET_ AND writes & BIT_ <> 0 FOR SHARE
		)`
	fenceNote = `note AS (
			INSERT INTO notes (username) SELECT $1 FROM here WHERE noted
		)`
	// refused is what a write answers instead of its count where there is no here.
	refused = -1
)

// accept returns [ErrMoved] unless the shard holds all the names, which it then does until the transaction ends; those that
// are leaving it notes.
func (p Placement) accept(ctx context.Context, s session, names []string) error {
	share, _ := p.db.locks()
	if _, err := readPlaced(ctx, s, share); err != nil { // everything that changes a bucket locks this row first
		return err
	}
	var writes, noted [Buckets]int
	err := s.query(ctx, func(read func(...any) error) error {
		var bucket, w, n int
		err := read(&bucket, &w, &n)
		writes[bucket], noted[bucket] = w, n
		return err
	}, "SELECT bucket, writes, noted FROM buckets")
	if err != nil {
		return err
	}
	for _, n := range names {
		bucket, bit := place(n)
		if writes[bucket]&bit == 0 {
			return ErrMoved
		}
		if noted[bucket]&bit == 0 {
			continue
		}
		if _, err := s.exec(ctx, "INSERT INTO notes (username) VALUES ($1)", n); err != nil {
			return err
		}
	}
	return nil
}

func namesOf(rows []Row) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}
