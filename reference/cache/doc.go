// Package cache holds the two caches between the Bloom filter and the shards:
// one in the process ([Local]) and one in Redis ([Redis]). Both say "taken" for
// long and "free" only for a moment, and neither is ever the judge of who owns
// a name.
//
// # What a cache may get wrong, and for how long
//
// "Free", of a name that is registered: never longer than [FreeTTL] after the
// registration in Redis and [LocalFreeTTL] more in a process, one second
// together, whatever fails. In the process that registered, and in Redis once
// the marker is set, not at all: a look-up that saw the name free before the
// registration cannot enter what it saw after it, because its [Ticket] or its
// [Lease] is no longer valid then.
//
// "Taken", of a name that was released: while Redis can be reached, as long as
// the news takes to the other instances, milliseconds. While it cannot, a
// [Follower] lets its local cache keep nothing for longer than [MaxStale]. In
// Redis, the marker is deleted at the release, and again [DeleteAgainAfter]
// later for whoever wrote one in between without a lease. A release that could
// not reach Redis is owed, and made good by the sweeps of the same process; if
// that ends too, whoever reads the outbox must call [Redis.Released] again.
//
// # What the filters of other instances hear of a registration
//
// While Redis can be reached, the news, within milliseconds. News that could not
// be told are owed, too, and told by the first sweep that reaches Redis: within
// about a second and a half of its return, of which go-redis takes up to one to
// dial again. News that Redis had and lost are in the shards, which is where
// [Follower.Connected] is to send the filter. If the process ends that owes
// them, the outbox has them.
package cache
