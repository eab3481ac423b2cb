package bloom_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/regpath/diagnose/reference/bloom"
)

// shards stands for the shards: names in the order of their creation.
type shards struct {
	mu   sync.Mutex
	rows []row

	// during, if any, is called while All or Since runs, after it has read.
	during func(add func(string))
	fail   error // of All and Since
	skip   int   // All loses every skip-th name
}

type row struct {
	name string
	at   time.Time
}

var _ bloom.Shards = (*shards)(nil)

func (s *shards) commit(at time.Time, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		s.rows = append(s.rows, row{n, at})
	}
}

func (s *shards) All(ctx context.Context, add func(string)) error {
	return s.Since(ctx, time.Time{}, add)
}

func (s *shards) Since(ctx context.Context, at time.Time, add func(string)) error {
	s.mu.Lock()
	rows := slices.Clone(s.rows)
	s.mu.Unlock()
	for i, r := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !r.at.Before(at) && (s.skip == 0 || i%s.skip != 0) {
			add(r.name)
		}
	}
	if s.during != nil {
		s.during(add)
	}
	return s.fail
}

func (s *shards) Sample(_ context.Context, n int, before time.Time) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, r := range s.rows {
		if r.at.Before(before) && len(names) < n {
			names = append(names, r.name)
		}
	}
	return names, nil
}
