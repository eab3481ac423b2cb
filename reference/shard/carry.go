package shard

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/twmb/murmur3"
)

// carryBatch is the number of rows that a change reads, copies or deletes at once: large enough that the round trips do not
// matter, small enough that nobody waits long for a transaction's locks.
const carryBatch = 250

// record is a name as it is carried from shard to shard, with the user who owns it: comparable, and the same whichever
// database it was read from. Users of former owners stay where they are, with the events: they are history, which nobody
// looks up by name.
type record struct {
	name         string
	userID       int64
	state        int16
	created      instant
	recyclableAt instant
	owner        bool // whether there is a user row: names that were loaded have none
	mobile       string
	userCreated  instant
	userDeleted  instant
}

// sum is the record's part of a checksum, which does not depend on the order.
func (r record) sum() uint64 { return murmur3.StringSum64(fmt.Sprintf("%#v", r)) }

// instant is a time in microseconds, or none.
type instant struct {
	micros int64
	valid  bool
}

// Scan implements [database/sql.Scanner] for what either database keeps.
func (i *instant) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*i = instant{}
	case int64:
		*i = instant{v, true}
	case time.Time:
		*i = instant{v.UnixMicro(), true}
	default:
		return fmt.Errorf("a time cannot be read from %T", src)
	}
	return nil
}

// argument is the time as a statement takes it.
func (i instant) argument() any {
	if !i.valid {
		return nil
	}
	return time.UnixMicro(i.micros).UTC()
}

const selectRecords = `SELECT n.username, n.user_id, n.state, n.created_at, n.recyclable_at, u.user_id, u.mobile, u.created_at, u.deleted_at
	FROM %s AS n LEFT JOIN users AS u ON u.user_id = n.user_id `

func scanRecords(into *[]record) func(func(...any) error) error {
	return func(read func(...any) error) error {
		var r record
		var owner *int64
		var mobile *string
		if err := read(&r.name, &r.userID, &r.state, &r.created, &r.recyclableAt, &owner, &mobile, &r.userCreated, &r.userDeleted); err != nil {
			return err
		}
		if r.owner = owner != nil; mobile != nil {
			r.mobile = *mobile
		}
		*into = append(*into, r)
		return nil
	}
}

// walk reads the records of one sub-table that are wanted, in ascending order, in batches, each a transaction of its own. It
// reads the table from end to end: the rows know nothing of their bucket, so that registrations need not pay for an index
// that only a change uses.
func (p Placement) walk(ctx context.Context, table int, wanted func(name string) bool) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		name := fmt.Sprintf("names_%02d", table)
		for after, from := "", ">="; ; from = ">" {
			var batch []record
			err := p.db.transact(ctx, func(s session) error {
				batch = batch[:0]
				return s.query(ctx, scanRecords(&batch), fmt.Sprintf(selectRecords, name)+
					"WHERE n.username "+from+" $1 ORDER BY n.username LIMIT $2", after, carryBatch)
			})
			if err != nil {
				yield(record{}, fmt.Errorf("read %s: %w", name, err))
				return
			}
			for _, r := range batch {
				if wanted(r.name) && !yield(r, nil) {
					return
				}
			}
			if len(batch) < carryBatch {
				return
			}
			after = batch[len(batch)-1].name
		}
	}
}

// find reads the records of the names given; those that are not there are left out.
func (p Placement) find(ctx context.Context, names []string) (found []record, err error) {
	err = p.db.transact(ctx, func(s session) error {
		found = nil
		for table, part := range byTable(names) {
			if len(part) == 0 {
				continue
			}
			err := s.query(ctx, scanRecords(&found), fmt.Sprintf(selectRecords, fmt.Sprintf("names_%02d", table))+
				"WHERE n.username IN "+placeholders(len(part)), part...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %d names: %w", len(names), err)
	}
	return found, nil
}

// put makes the shard have these records, and of the names given no others. All must be arriving.
func (p Placement) put(ctx context.Context, by pass, names []string, present []record) error {
	err := p.work(ctx, by, func(s session, h holding) error {
		for _, name := range names {
			if !h.arriving.has(Part(name)) {
				return fmt.Errorf("%w: bucket %d does not arrive here", ErrStaleTable, by.bucket)
			}
		}
		if err := remove(ctx, s, names); err != nil {
			return err
		}
		return insert(ctx, s, present)
	})
	if err != nil {
		return fmt.Errorf("copy %d names: %w", len(names), err)
	}
	return nil
}

// drop deletes names of which the shard holds nothing any more.
func (p Placement) drop(ctx context.Context, by pass, names []string) error {
	err := p.work(ctx, by, func(s session, h holding) error {
		for _, name := range names {
			if (h.reads | h.writes | h.arriving).has(Part(name)) {
				return fmt.Errorf("%w: bucket %d is held here", ErrStaleTable, by.bucket)
			}
		}
		return remove(ctx, s, names)
	})
	if err != nil {
		return fmt.Errorf("delete %d names: %w", len(names), err)
	}
	return nil
}

func remove(ctx context.Context, s session, names []string) error {
	for table, part := range byTable(names) {
		if len(part) == 0 {
			continue
		}
		from := fmt.Sprintf(" FROM names_%02d WHERE username IN ", table) + placeholders(len(part))
		if _, err := s.exec(ctx, "DELETE FROM users WHERE user_id IN (SELECT user_id"+from+")", part...); err != nil {
			return err
		}
		if _, err := s.exec(ctx, "DELETE"+from, part...); err != nil {
			return err
		}
	}
	return nil
}

func insert(ctx context.Context, s session, records []record) error {
	for _, r := range records {
		_, err := s.exec(ctx, fmt.Sprintf("INSERT INTO names_%02d (username, user_id, created_at, state, recyclable_at) VALUES ", SubTable(r.name))+
			placeholders(5), r.name, r.userID, r.created.argument(), r.state, r.recyclableAt.argument())
		if err != nil {
			return err
		}
		if !r.owner {
			continue
		}
		var mobile any
		if r.mobile != "" {
			mobile = r.mobile
		}
		_, err = s.exec(ctx, "INSERT INTO users (user_id, username, mobile, created_at, deleted_at) VALUES "+
			placeholders(5), r.userID, r.name, mobile, r.userCreated.argument(), r.userDeleted.argument())
		if err != nil {
			return err
		}
	}
	return nil
}

// byTable sorts names, as arguments, by their sub-table.
func byTable(names []string) (parts [SubTables][]any) {
	for _, name := range names {
		i := SubTable(name)
		parts[i] = append(parts[i], name)
	}
	return parts
}

// placeholders is ($1, …, $n).
func placeholders(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", 1+i)
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// note says that a name was written while its part was leaving.
type note struct {
	id   int64
	name string
}

// notes lists the oldest notes.
func (p Placement) notes(ctx context.Context) (all []note, err error) {
	err = p.db.transact(ctx, func(s session) error {
		all = nil
		return s.query(ctx, func(read func(...any) error) error {
			var n note
			err := read(&n.id, &n.name)
			all = append(all, n)
			return err
		}, "SELECT id, username FROM notes ORDER BY id LIMIT $1", carryBatch)
	})
	if err != nil {
		return nil, fmt.Errorf("read the notes: %w", err)
	}
	return all, nil
}

// forget deletes notes whose names have been carried over. A later note of the same name has another id and stays.
func (p Placement) forget(ctx context.Context, by pass, notes []note) error {
	ids := make([]any, len(notes))
	for i, n := range notes {
		ids[i] = n.id
	}
	err := p.work(ctx, by, func(s session, _ holding) error {
		_, err := s.exec(ctx, "DELETE FROM notes WHERE id IN "+placeholders(len(ids)), ids...)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget %d notes: %w", len(notes), err)
	}
	return nil
}
