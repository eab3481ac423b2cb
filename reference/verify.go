package reference

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/regpath/diagnose/reference/id"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// Verification is how existing names fared in the filter, which has no false
// negatives: every missing one is a fault.
type Verification struct {
	// Shards is a sample of all names, by shard.
	Shards []Verified
	// Latest are the latest registrations of this instance; it has no Shard.
	Latest Verified
	// Groups are all these names by who entered them and by what they are made
	// of, those with the most missing names first.
	Groups []VerifiedGroup
}

// Verified is how some names fared.
type Verified struct {
	Shard            string
	Sampled, Missing int
	Err              error
}

// VerifiedGroup is how the names of one kind fared.
type VerifiedGroup struct {
	// By says what the group has in common: "writer" or "characters".
	By, Group        string
	Sampled, Missing int
	// KnownAfter counts the names among them that are younger than the youngest
	// missing one, and known.
	KnownAfter int
}

// Verify samples up to n existing names, spread over the shards and registered
// before the given time, and looks for them in the filter, together with the
// latest registrations of this instance. It returns when ctx ends at the latest;
// a shard that could not be asked says so.
func (s *Service) Verify(ctx context.Context, n int, before time.Time) Verification {
	found := s.sample(ctx, n, before)
	v := Verification{Shards: make([]Verified, len(found))}
	all := map[string]tested{}
	test := func(rows []shard.Row) (missing int) {
		for _, r := range rows {
			t := tested{Row: r, known: s.Filter.Test(r.Name)}
			all[r.Name] = t
			if !t.known {
				missing++
			}
		}
		return missing
	}
	for i, f := range found {
		v.Shards[i] = Verified{Shard: f.shard, Sampled: len(f.rows), Missing: test(f.rows), Err: f.err}
	}
	rows := s.latestBefore(before)
	v.Latest = Verified{Sampled: len(rows), Missing: test(rows)}
	v.Groups = groups(all)
	return v
}

// sampled are rows of one shard.
type sampled struct {
	shard string
	rows  []shard.Row
	err   error
}

// sample reads up to n rows, spread over the shards, of names registered before
// the given time.
func (s *Service) sample(ctx context.Context, n int, before time.Time) []sampled {
	shards := s.Shards.Len()
	out := make([]sampled, shards)
	var group errgroup.Group
	for i := range shards {
		group.Go(func() error {
			out[i].shard = "shard" + strconv.Itoa(i)
			if share := (n + shards - 1 - i) / shards; share > 0 {
				out[i].rows, out[i].err = s.Shards.Store(i).Sample(ctx, share, before)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
	return out
}

// tested is a row and whether the filter knows its name.
type tested struct {
	shard.Row

	known bool
}

// groups sorts the names by writer and by characters.
func groups(all map[string]tested) []VerifiedGroup {
	type key struct{ by, group string }
	members := map[key][]tested{}
	for n, t := range all {
		writer := "before this service" // ids that no generator gave out
		if machine, ok := id.Writer(t.UserID); ok {
			writer = "machine " + strconv.Itoa(machine)
		}
		for _, k := range []key{{"writer", writer}, {"characters", string(name.ClassOf(n))}} {
			members[k] = append(members[k], t)
		}
	}
	out := make([]VerifiedGroup, 0, len(members))
	for k, names := range members {
		g := VerifiedGroup{By: k.by, Group: k.group, Sampled: len(names)}
		var youngest time.Time
		for _, t := range names {
			if !t.known {
				g.Missing++
				if t.CreatedAt.After(youngest) {
					youngest = t.CreatedAt
				}
			}
		}
		for _, t := range names {
			if g.Missing > 0 && t.known && t.CreatedAt.After(youngest) {
				g.KnownAfter++
			}
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b VerifiedGroup) int {
		return cmp.Or(cmp.Compare(b.Missing, a.Missing), cmp.Compare(b.Sampled, a.Sampled), strings.Compare(a.By+a.Group, b.By+b.Group))
	})
	return out
}
