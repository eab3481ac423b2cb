// Package cache holds the two caches between the Bloom filter and the shards:
// one in the process and one in Redis. Both say "taken" for long and "free"
// only for a moment, and neither is ever the judge of who owns a name.
package cache
