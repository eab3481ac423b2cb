package shard

import (
	"fmt"

	"github.com/twmb/murmur3"
)

// Buckets is the number of logical buckets, fixed for ever: names never change their bucket, buckets change their shard.
const Buckets = 1024

// Bucket is the bucket of a canonical name: the ten highest bits of its 64-bit murmur3 hash (the first half of x64-128,
// seed 0).
func Bucket(name string) int { return int(murmur3.StringSum64(name) >> 54) }

// SubTable is the index of the table that holds a canonical name within its shard: the four lowest bits of the hash whose
// highest bits are the bucket, so that the names of one bucket still spread over all tables.
func SubTable(name string) int { return int(murmur3.StringSum64(name) % SubTables) }

// RoutingTable says which shard owns each bucket.
type RoutingTable struct {
	// Version grows by one with every change of the table; it begins at 1.
	Version int `json:"version"`
	// Owners holds the index of the owning shard for each of the [Buckets] buckets.
	Owners []int `json:"owners"`
}

// DefaultRoutingTable deals the buckets to the shards in equal, contiguous ranges.
func DefaultRoutingTable(shards int) RoutingTable {
	t := RoutingTable{Version: 1, Owners: make([]int, Buckets)}
	for b := range t.Owners {
		t.Owners[b] = b * shards / Buckets
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
	for bucket, owner := range t.Owners {
		if owner < 0 || owner >= shards {
			return fmt.Errorf("routing table version %d: bucket %d is owned by shard %d, there are %d shards", t.Version, bucket, owner, shards)
		}
	}
	return nil
}
