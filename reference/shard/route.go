package shard

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/twmb/murmur3"
)

const (
	// Buckets is the number of logical buckets, fixed for ever: names never change their bucket, buckets change their shard.
	Buckets = 1024
	// Parts is the number of parts of a bucket, the smallest pieces that can have a shard of their own.
	Parts = 16
)

// Bucket is the bucket of a canonical name: the ten highest bits of its 64-bit murmur3 hash (the first half of x64-128,
// seed 0).
func Bucket(name string) int { return int(murmur3.StringSum64(name) >> 54) }

// Part is the part of its bucket that a canonical name belongs to: the four bits of the hash that follow the bucket's.
func Part(name string) int { return int(murmur3.StringSum64(name) >> 50 % Parts) }

// SubTable is the index of the table that holds a canonical name within its shard: the four lowest bits of the hash whose
// highest bits are the bucket, so that the names of one bucket still spread over all tables.
func SubTable(name string) int { return int(murmur3.StringSum64(name) % SubTables) }

// RoutingTable says which shard owns each bucket. It is a value: the methods that change it answer a new table.
type RoutingTable struct {
	// Version grows by one with every change of the table; it begins at 1.
	Version int `json:"version"`
	// Owners holds the index of the owning shard for each of the [Buckets] buckets.
	Owners []int `json:"owners"`
	// Splits holds the hot buckets that are split over several owners, each owning an equal number of the [Parts] in their
	// order; there are 2, 4, 8 or 16, and a shard may be named more than once. What Owners says of such a bucket is void.
	Splits map[int][]int `json:"splits,omitempty"`
	// Change is the one change of owners that is under way.
	Change *Change `json:"change,omitempty"`
}

// DefaultRoutingTable deals the buckets to the shards in equal, contiguous ranges.
func DefaultRoutingTable(shards int) RoutingTable {
	t := RoutingTable{Version: 1, Owners: make([]int, Buckets)}
	for b := range t.Owners {
		t.Owners[b] = b * shards / Buckets
	}
	return t
}

// Owner is the index of the shard where the name is looked up and registered: one, whatever is under way.
func (t RoutingTable) Owner(name string) int {
	hash := murmur3.StringSum64(name)
	bucket := int(hash >> 54)
	if len(t.Splits) == 0 {
		return t.Owners[bucket]
	}
	return ownerOf(t.owners(bucket), int(hash>>50%Parts))
}

// owners lists the owners of a bucket: one, or those of its split.
func (t RoutingTable) owners(bucket int) []int {
	if split := t.Splits[bucket]; split != nil {
		return split
	}
	return t.Owners[bucket : bucket+1]
}

// ownerOf finds the owner of a part among the owners of its bucket.
func ownerOf(owners []int, part int) int { return owners[part*len(owners)/Parts] }

// withOwners answers a table of the next version in which the bucket has other owners.
func (t RoutingTable) withOwners(bucket int, owners []int) RoutingTable {
	t.Version++
	t.Splits = maps.Clone(t.Splits)
	delete(t.Splits, bucket)
	if len(owners) == 1 {
		t.Owners = slices.Clone(t.Owners)
		t.Owners[bucket] = owners[0]
	} else {
		if t.Splits == nil {
			t.Splits = map[int][]int{}
		}
		t.Splits[bucket] = slices.Clone(owners)
	}
	if len(t.Splits) == 0 {
		t.Splits = nil
	}
	return t
}

// Validate returns an error unless the table has a version and gives every bucket one of the shards as its owner. A shard
// that owns nothing is allowed: that is how one is drained.
func (t RoutingTable) Validate(shards int) error {
	if t.Version < 1 {
		return fmt.Errorf("routing table: version %d, want 1 or more", t.Version)
	}
	if len(t.Owners) != Buckets {
		return fmt.Errorf("routing table version %d: owners for %d buckets, want %d", t.Version, len(t.Owners), Buckets)
	}
	for bucket := range t.Owners {
		if err := validOwners(bucket, t.Owners[bucket:bucket+1], shards); err != nil {
			return fmt.Errorf("routing table version %d: %w", t.Version, err)
		}
	}
	for bucket, owners := range t.Splits {
		if err := validOwners(bucket, owners, shards); err != nil {
			return fmt.Errorf("routing table version %d: %w", t.Version, err)
		}
	}
	if t.Change == nil {
		return nil
	}
	if err := t.Change.validate(shards); err != nil {
		return fmt.Errorf("routing table version %d: %w", t.Version, err)
	}
	if want := t.Change.serving(); !slices.Equal(t.owners(t.Change.Bucket), want) {
		return fmt.Errorf("routing table version %d: bucket %d is owned by %v, its change wants %v",
			t.Version, t.Change.Bucket, t.owners(t.Change.Bucket), want)
	}
	return nil
}

func validOwners(bucket int, owners []int, shards int) error {
	if bucket < 0 || bucket >= Buckets {
		return fmt.Errorf("there is no bucket %d, there are %d", bucket, Buckets)
	}
	if n := len(owners); n < 1 || n > Parts || Parts%n != 0 {
		return fmt.Errorf("bucket %d has %d owners, want 1, 2, 4, 8 or 16", bucket, n)
	}
	for _, owner := range owners {
		if owner < 0 || owner >= shards {
			return fmt.Errorf("bucket %d is owned by shard %d, there are %d shards", bucket, owner, shards)
		}
	}
	return nil
}

// Follows returns nil when t is what becomes of old by one legal step: a change begun, taken up, brought one step further
// or turned back. Only such a table may take the place of old.
func (t RoutingTable) Follows(old RoutingTable) error {
	if t.Version != old.Version+1 {
		return fmt.Errorf("routing table version %d does not follow version %d", t.Version, old.Version)
	}
	var legal []RoutingTable
	add := func(next RoutingTable, err error) {
		if err == nil {
			legal = append(legal, next)
		}
	}
	if old.Change == nil && t.Change != nil {
		add(old.begin(t.Change.Bucket, t.Change.To))
	}
	if old.Change != nil {
		add(old.takeUp())
		add(old.advance())
		add(old.turnBack())
	}
	if !slices.ContainsFunc(legal, func(next RoutingTable) bool { return reflect.DeepEqual(next, t) }) {
		return fmt.Errorf("routing table version %d is no legal successor of version %d", t.Version, old.Version)
	}
	return nil
}
