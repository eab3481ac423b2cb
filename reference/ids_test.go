package reference_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference"
)

// TestIDsGrow sets the clock back and forth between ids.
func TestIDsGrow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	g, err := reference.NewIDs(513, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, jump := range []time.Duration{0, -10 * time.Second, time.Millisecond, -time.Millisecond, time.Hour, -time.Hour, 0, time.Microsecond} {
		now = now.Add(jump)
		for range 10_000 { // more than one millisecond has numbers
			id, err := g.Next()
			if err != nil {
				t.Fatal(err)
			}
			if id <= last {
				t.Fatalf("after a jump of %s: id %d follows %d", jump, id, last)
			}
			if machine := id >> 12 & 1023; machine != 513 {
				t.Fatalf("machine in id = %d, want 513", machine)
			}
			last = id
		}
	}
}

func TestIDsNeverRepeat(t *testing.T) {
	t.Parallel()
	g, err := reference.NewIDs(0, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	const workers, each = 8, 5000
	ids := make(chan int64, workers*each)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				id, err := g.Next()
				if err != nil {
					t.Error(err)
				}
				ids <- id
			}
		})
	}
	all.Wait()
	close(ids)
	seen := map[int64]bool{}
	for id := range ids {
		if seen[id] {
			t.Errorf("id %d was given out twice", id)
		}
		seen[id] = true
	}
	if got, want := len(seen), workers*each; got != want {
		t.Errorf("%d different ids, want %d", got, want)
	}
}

func TestIDsRefuse(t *testing.T) {
	t.Parallel()
	for _, machine := range []int{-1, 1024} {
		if _, err := reference.NewIDs(machine, time.Now); err == nil || !strings.Contains(err.Error(), "between 0 and 1023") {
			t.Errorf("NewIDs(%d) = %v, want an error that names the range", machine, err)
		}
	}
	late := time.Date(2094, 1, 1, 0, 0, 0, 0, time.UTC)
	g, err := reference.NewIDs(0, func() time.Time { return late })
	if err != nil {
		t.Fatal(err)
	}
	if id, err := g.Next(); err == nil {
		t.Errorf("Next() in 2094 = %d, want an error", id)
	}
}
