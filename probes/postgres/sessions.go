package postgres

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// tally adds up a column of the groups of sessions that match.
func (s sample) tally(column string, match func(source.Record) bool) probes.Number {
	if s.sessionsErr != nil {
		return probes.Unknown(s.sessionsErr.Error())
	}
	total := probes.Known(0)
	for _, r := range s.sessions {
		if match(r) {
			total = total.Plus(r.Number(column))
		}
	}
	return total
}

// oldest is the largest value of a column over the groups that match, 0 for none.
func (s sample) oldest(column string, match func(source.Record) bool) probes.Number {
	if s.sessionsErr != nil {
		return probes.Unknown(s.sessionsErr.Error())
	}
	most := probes.Known(0)
	for _, r := range s.sessions {
		if _, there := r[column]; there && match(r) {
			// A clock that was set back makes ages negative.
			most = most.Higher(r.Number(column).Clamp(0, maxAge))
		}
	}
	return most
}

// maxAge bounds an age that is believed: a year, in seconds.
const maxAge = 366 * 24 * 3600

func every(source.Record) bool { return true }

// here is a session in the shard's own database that is not the agent's.
func here(r source.Record) bool { return r.Is("here") }

func waits(r source.Record) bool { return here(r) && r.Text("wait") == "Lock" }

// active is a session that runs a statement and waits for no lock.
func active(r source.Record) bool { return here(r) && r.Text("state") == "active" && !waits(r) }

// works is one of the service that does.
func works(r source.Record) bool { return active(r) && r.Is("service") }

func idle(r source.Record) bool { return here(r) && r.Text("state") == "idle" }

// rests is one of the service outside a transaction that has nothing to do.
func rests(r source.Record) bool { return idle(r) && r.Is("service") }

func idleInTransaction(r source.Record) bool {
	return here(r) && strings.HasPrefix(r.Text("state"), "idle in transaction")
}

// lower takes a number of a shard at the lower of the samples: what stands at both
// ends of the window is no passing burst.
func lower(number func(sample) probes.Number) func(shard) probes.Number {
	return func(s shard) probes.Number { return s.span.Lower(number(s.first), number(s.last)) }
}

// recordSessions records what sessions do, and how many more there may be.
func recordSessions(rec *probes.Recorder, shards []shard) {
	clients := func(s sample) probes.Number { return s.tally("n", every) }
	share := lower(func(s sample) probes.Number {
		return clients(s).Over(s.server.Number("slots").AtLeast(1, "slots is not positive"), "")
	})
	rec.Set("sessions_ratio", over(shards, share, highest))
	if s, ok := fullest(shards, share); ok {
		rec.Set("sessions", lower(clients)(s))
		rec.Set("sessions_limit", s.last.server.Number("slots").AtLeast(0, "slots is negative"))
		rec.Set("top_client_share", recordClients(rec, s, share(s)))
	}
	for _, s := range shards {
		if v, ok := share(s).Get(); ok && s.err() == nil && v >= 0.95 {
			row(rec, tableFull, s.name, share(s), probes.Ratio, "%.0f sessions", clients(s.last).Or(0))
		}
	}
	rec.Set("busy_sessions", over(shards, lower(func(s sample) probes.Number { return s.tally("n", works) }), highest))
	rec.Set("slow_statements", over(shards, lower(func(s sample) probes.Number { return s.tally("slow", works) }), sum))
	rec.Set("service_idle_sessions", over(shards, lower(func(s sample) probes.Number { return s.tally("stale", rests) }), highest))
	rec.Set("idle_transactions", over(shards, lower(func(s sample) probes.Number { return s.tally("stale", idleInTransaction) }), highest))
	last := func(number func(sample) probes.Number) func(shard) probes.Number {
		return func(s shard) probes.Number { return number(s.last) }
	}
	rec.Set("idle_transaction_seconds", over(shards, last(func(s sample) probes.Number { return s.oldest("transaction_age", idleInTransaction) }), highest))
	rec.Set("transaction_seconds", over(shards, last(func(s sample) probes.Number { return s.oldest("transaction_age", here) }), highest))
	for _, s := range shards[:min(len(shards), maxRows)] {
		if s.err() == nil {
			sessionRow(rec, s)
		}
	}
	reason := over(shards, share, highest).Why()
	rec.Miss(reason, "sessions", "sessions_limit", "top_client_share")
}

// fullest is the shard with the largest share of its slots taken.
func fullest(shards []shard, share func(shard) probes.Number) (shard, bool) {
	var known []shard
	for _, s := range shards {
		if _, ok := share(s).Get(); ok && s.err() == nil {
			known = append(known, s)
		}
	}
	if len(known) == 0 {
		return shard{}, false
	}
	return slices.MaxFunc(known, func(a, b shard) int { return cmp.Compare(share(a).Or(0), share(b).Or(0)) }), true
}

// recordClients lists who has the sessions of a shard and returns the share of
// the first.
func recordClients(rec *probes.Recorder, s shard, full probes.Number) probes.Number {
	counts := map[string]float64{}
	total := 0.0
	for _, r := range s.last.sessions {
		n := r.Number("n").Or(0)
		total += n
		// The sessions of the many that have few have no name.
		if _, named := r["client"]; named {
			counts[r.Text("client")] += n
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), maxRows)] {
		key := name
		if key == "" {
			key = "(without a name)"
		}
		row(rec, tableClients, key, probes.Known(counts[name]), probes.Count, "sessions on %s, %.0f %% of whose slots are taken", s.name, 100*full.Or(0))
	}
	if len(names) == 0 {
		return probes.Known(0)
	}
	return probes.Known(counts[names[0]]).Over(probes.Known(total), "")
}

// sessionRow says in a line what the sessions in the database of a shard do.
func sessionRow(rec *probes.Recorder, s shard) {
	n := func(match func(source.Record) bool) float64 { return s.last.tally("n", match).Or(0) }
	row(rec, tableSessions, s.name, s.last.tally("n", here), probes.Count, "%s", fmt.Sprintf(
		"%.0f active, %.0f waiting for a lock, %.0f idle in transaction, %.0f idle",
		n(active), n(waits), n(idleInTransaction), n(idle)))
}
