package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// put is a change that leaves a mark in the table marks.
func put(mark string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO marks VALUES ($1)`, mark)
		return err
	}
}

// openMarks opens a store with a table for put.
func openMarks(t *testing.T) *store {
	t.Helper()
	in := openInbox(t, Options{})
	if err := in.store.exec(t.Context(), `CREATE TABLE marks (mark TEXT)`); err != nil {
		t.Fatal(err)
	}
	return in.store
}

// marks lists what put has left.
func marks(t *testing.T, s *store) string {
	t.Helper()
	var list sql.NullString
	if err := s.read.QueryRowContext(t.Context(), `SELECT string_agg(mark, ' ' ORDER BY mark) FROM marks`).Scan(&list); err != nil {
		t.Fatal(err)
	}
	return list.String
}

// hold keeps the committer of a store without changes from its next transaction, so that
// changes gather, and returns what lets it go on. That transaction has all the time that a
// slow machine needs to gather them.
func hold(t *testing.T, s *store) func() {
	t.Helper()
	begin, gate := s.committer.begin, make(chan struct{})
	s.committer.begin = func(context.Context) (*sql.Tx, error) {
		<-gate
		return begin(context.WithoutCancel(t.Context()))
	}
	return func() { close(gate) }
}

// inOneGroup has the changes share a transaction and returns their errors. The
// first one opens the transaction, the others wait behind it.
func inOneGroup(t *testing.T, s *store, changes ...func(context.Context, *sql.Tx) error) []error {
	t.Helper()
	release := hold(t, s)
	errs := make([]error, len(changes))
	var wg sync.WaitGroup
	for i, do := range changes {
		wg.Go(func() { errs[i] = s.update(t.Context(), do) })
	}
	eventually(t, "all but the first wait", func() bool { return len(s.committer.waiting) == len(changes)-1 })
	release()
	wg.Wait()
	return errs
}

// TestChangesShareAFate: each change is kept or fails for itself, although they
// share a transaction; unless the database gives that up: then what came before
// fails with it, and what comes after goes into the next one.
func TestChangesShareAFate(t *testing.T) {
	t.Parallel()
	fails := func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(put("half")(ctx, tx), errors.New("no"))
	}
	panics := func(ctx context.Context, tx *sql.Tx) error {
		panic(fmt.Sprint("a bug", put("quarter")(ctx, tx)))
	}
	// As SQLite does by itself when the disk is full.
	breaks := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `ROLLBACK`)
		return errors.Join(err, errors.New("database or disk is full"))
	}
	for _, tt := range []struct {
		name string
		odd  func(context.Context, *sql.Tx) error
		want string // of the odd one
		all  bool   // before it fail with it
	}{
		{"one fails", fails, "no", false},
		{"one panics", panics, "a bug", false},
		{"one breaks the transaction", breaks, "disk is full", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := openMarks(t)
			errs := inOneGroup(t, s, put("a"), tt.odd, put("b"))
			var want []string // what is kept is what the callers were told
			for i, err := range errs {
				switch {
				case i == 1 && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("the odd one: got %v, want %q", err, tt.want)
				case i != 1 && err == nil:
					want = append(want, string("a b"[i]))
				case i != 1 && (!tt.all || !errors.Is(err, errGroupBroken)):
					t.Errorf("change %d: got %v, want it kept", i, err)
				}
			}
			if got := marks(t, s); got != strings.Join(want, " ") {
				t.Errorf("got marks %q, want %q", got, want)
			}
			// The next group finds the store in order.
			if err := s.update(t.Context(), put("c")); err != nil {
				t.Errorf("the next change: %v", err)
			}
		})
	}
}

// TestDearChanges: a load that is too dear for one transaction goes through in
// several, rather than never.
func TestDearChanges(t *testing.T) {
	t.Parallel()
	s := openMarks(t)
	var mu sync.Mutex
	transactions := map[*sql.Tx]int{}
	dear := func(ctx context.Context, tx *sql.Tx) error {
		mu.Lock()
		transactions[tx]++
		mu.Unlock()
		<-time.After(groupPatience * 3 / 5)
		return put("x")(ctx, tx)
	}
	for i, err := range inOneGroup(t, s, dear, dear, dear, dear, dear) {
		if err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if got := marks(t, s); got != "x x x x x" {
		t.Errorf("got marks %q, want five", got)
	}
	for _, n := range transactions {
		if n > 2 {
			t.Errorf("a transaction had %d dear changes, want two at most", n)
		}
	}
}

// TestChangeWithdrawn: who waits no longer has changed nothing.
func TestChangeWithdrawn(t *testing.T) {
	t.Parallel()
	s := openMarks(t)
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	withdrawn := make(chan error)
	go func() { withdrawn <- s.update(ctx, put("gone")) }()
	cancel()
	if err := <-withdrawn; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context canceled", err)
	}
	release()
	if err := s.update(t.Context(), put("stays")); err != nil {
		t.Fatal(err)
	}
	if got := marks(t, s); got != "stays" {
		t.Errorf("got marks %q, want stays only", got)
	}
}

// TestBehind: with the line full the sender is told at once to come again, and
// all that waited is stored.
func TestBehind(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := newHandler(in)
	release := hold(t, in.store)
	var wg sync.WaitGroup
	for range maxWaiting + 1 { // one of them has left the line to open the transaction
		wg.Go(func() {
			if err := in.store.update(t.Context(), func(context.Context, *sql.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "the line is full", in.store.committer.behind)
	if code, a := serve(t, h, request(readCase(t, "v35-firing-single.json"))); code != http.StatusServiceUnavailable || a.Reason != "behind" {
		t.Errorf("got %d %q, want 503 behind", code, a.Reason)
	}
	release()
	wg.Wait()
	wantPost(t, h, "v35-firing-single.json", Opened)
}

// TestClosedStore: what comes after the end is told so.
func TestClosedStore(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	stop(t, in)
	if err := in.store.update(t.Context(), put("late")); !errors.Is(err, errStoreClosed) {
		t.Errorf("got %v, want errStoreClosed", err)
	}
}

// TestPatientChangesGoOn: a storm that fills every transaction holds up the work on it, but does not stop it.
func TestPatientChangesGoOn(t *testing.T) {
	t.Parallel()
	s := openMarks(t)
	over := make(chan struct{})
	var storm sync.WaitGroup
	for range 3 * maxGroup {
		storm.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := s.update(t.Context(), func(context.Context, *sql.Tx) error { return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	eventually(t, "more wait than one transaction takes", func() bool { return len(s.committer.waiting) > maxGroup })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		if err := s.updatePatiently(ctx, func(context.Context, *sql.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	close(over)
	storm.Wait()
}

// TestPatientChangesWait: what a sender waits for goes before what was there first,
// and shares its transaction with a few of those at most, but not with none.
func TestPatientChangesWait(t *testing.T) {
	t.Parallel()
	s := openMarks(t)
	var mu sync.Mutex
	var order []string
	with := map[*sql.Tx]int{} // patient changes in each transaction
	var shared *sql.Tx
	patient := func(_ context.Context, tx *sql.Tx) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, "patient")
		with[tx]++
		return nil
	}
	release := hold(t, s)
	var wg sync.WaitGroup
	const many = 5 * maxPatient
	for range many {
		wg.Go(func() {
			if err := s.updatePatiently(t.Context(), patient); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all but the first wait", func() bool { return len(s.committer.patient) == many-1 })
	wg.Go(func() {
		if err := s.update(t.Context(), func(_ context.Context, tx *sql.Tx) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, "asked for")
			shared = tx
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "somebody waits", func() bool { return len(s.committer.waiting) == 1 })
	release()
	wg.Wait()
	if len(order) != many+1 || order[1] != "asked for" {
		t.Errorf("%d changes in the order %v, want %d, what was asked for second", len(order), order, many+1)
	}
	if n := with[shared]; n < 1 || n > maxPatient {
		t.Errorf("%d patient changes share the transaction, want 1 to %d", n, maxPatient)
	}
}
