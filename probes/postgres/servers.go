package postgres

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// recordServers records what there is one of per server: transactions, whether it
// takes writes, how far replicas are behind, sequences.
func (p *probe) recordServers(ctx context.Context, rec *probes.Recorder, shards []shard) {
	delta := func(column string) func(shard) probes.Number {
		return func(s shard) probes.Number {
			return s.span.Delta(s.first.server.Number(column), s.last.server.Number(column))
		}
	}
	rate := func(column string) func(shard) probes.Number {
		return func(s shard) probes.Number { return s.span.PerSecond(delta(column)(s)) }
	}
	rec.Set("commits_rate", over(shards, rate("commits"), sum))
	rec.Set("rollbacks_rate", over(shards, rate("rollbacks"), sum))
	rec.Set("deadlocks", over(shards, delta("deadlocks"), sum))
	rec.Set("standbys", over(shards, truth("standby"), sum))
	rec.Set("read_only", over(shards, readOnly, sum))
	for _, s := range shards {
		if s.err() != nil || readOnly(s).Or(0) == 0 {
			continue
		}
		why := "default_transaction_read_only is on"
		if s.last.server.Is("standby") {
			why = "it is a standby (pg_is_in_recovery)"
		}
		row(rec, tableReadOnly, s.name, probes.Known(1), probes.Bool, "%s", why)
	}
	p.recordReplicas(ctx, rec, shards)
	rec.Set("sequence_used_ratio", over(shards, func(s shard) probes.Number { return s.last.server.Number("sequence_used").Clamp(0, 1) }, highest))
	rec.Set("sequence_burn_rate", over(shards, func(s shard) probes.Number {
		// The statistics of inserts come up to a second late, so the difference may
		// run backwards for a moment.
		ahead := s.last.server.Number("sequence_ahead").Minus(s.first.server.Number("sequence_ahead"))
		return s.span.PerSecond(ahead.Clamp(0, 1e18))
	}, sum))
}

// truth is a truth value as 0 or 1; unknown where the server does not tell.
func truth(column string) func(shard) probes.Number {
	return func(s shard) probes.Number {
		n := probes.Known(0)
		if s.last.server.Is(column) {
			n = probes.Known(1)
		}
		return n.If(s.last.server.Text(column) != "", column+" is left out")
	}
}

func readOnly(s shard) probes.Number {
	set := truth("read_only")(s)
	if set.Why() != "" {
		set = probes.Unknown("the agent's role has a default_transaction_read_only of its own, which hides that of others")
	}
	return truth("standby")(s).Higher(set)
}

// recordReplicas records how far behind the replicas are: as the primary sees them
// or, where the shard is a standby itself, by its own log. A primary that nobody
// writes to knows no lag and has none.
func (p *probe) recordReplicas(ctx context.Context, rec *probes.Recorder, shards []shard) {
	rec.Set("replicas", over(shards, func(s shard) probes.Number { return s.last.server.Number("replicas") }, sum))
	bytes := lower(func(s sample) probes.Number { return s.behind("lag_bytes").Clamp(0, 1e18) })
	furthest := lower(func(s sample) probes.Number { return s.lag(s.furthest()) })
	rec.Set("replay_lag_bytes", over(shards, bytes, highest))
	seconds := furthest
	if slices.ContainsFunc(shards, func(s shard) bool { return furthest(s).Or(0) >= late }) {
		told := p.readers(ctx, rec)
		seconds = func(s shard) probes.Number {
			return lower(func(at sample) probes.Number { return at.lag(at.serving(told(s.name))) })(s)
		}
	}
	rec.Set("replay_lag_seconds", over(shards, seconds, highest))
	// A report is about the first of them.
	worst := slices.SortedStableFunc(slices.Values(shards), func(a, b shard) int { return cmp.Compare(seconds(b).Or(-1), seconds(a).Or(-1)) })
	for _, s := range worst {
		if lag := furthest(s); s.err() == nil && lag.Or(0) >= late {
			note := "its look-ups go there"
			if n := seconds(s); n.Why() != "" {
				note = n.Why()
			} else if n.Or(0) < late {
				note = "its look-ups go elsewhere"
			}
			row(rec, tableReplicas, s.name, lag, probes.Seconds, "%.0f bytes of its log are not replayed; %s", bytes(s).Or(0), note)
		}
	}
}

// late is from how many seconds a replica is behind: streaming takes milliseconds.
const late = 1.0

// lag is how far replicas are behind, where the shard is a primary, or itself.
func (s sample) lag(replicas probes.Number) probes.Number {
	lag := replicas.Clamp(0, maxAge)
	if _, own := s.server["own_lag"]; own {
		return lag.Higher(s.server.Number("own_lag").Clamp(0, maxAge))
	}
	return lag
}

// furthest is the lag of the replica that is furthest behind.
func (s sample) furthest() probes.Number { return s.behind("lag_seconds") }

// reader is where the look-ups of a shard go: to the replica at an address, or, if
// there is none, to the shard itself. err says why that is not known.
type reader struct {
	address string
	replica bool
	err     error
}

// readers asks the service where its look-ups go.
func (p *probe) readers(ctx context.Context, rec *probes.Recorder) func(shard string) reader {
	if p.api == nil {
		return func(string) reader {
			return reader{err: errors.New("no checker is configured: set its URL to ask where look-ups go")}
		}
	}
	var doc source.Shards
	err := p.api.Get(ctx, rec.Cost(), source.PathShards, nil, &doc)
	return func(name string) reader {
		for _, s := range doc.Shards {
			if s.Shard == name && s.Replica != nil {
				return reader{address: s.Replica.Address, replica: true}
			}
		}
		return reader{err: err}
	}
}

// serving is the lag of the replica that look-ups go to. One may be behind on purpose,
// for the day on which somebody deletes too much, and nobody reads from that. The
// primary knows its replicas by the addresses that they come from, and by no port:
// where that does not tell, whichever serves is as late as the one that is least so.
func (s sample) serving(r reader) probes.Number {
	switch lag := s.furthest(); {
	case lag.Or(0) < late:
		return lag
	case r.err != nil:
		return source.Lacking(r.err)
	case !r.replica:
		return probes.Known(0)
	}
	host, _, _ := net.SplitHostPort(r.address)
	var of, all []float64
	for field := range strings.FieldsSeq(s.server.Text("lags")) {
		address, text, _ := strings.Cut(field, "=")
		lag := probes.ParseNumber(text).Or(0)
		all = append(all, lag)
		if address == host {
			of = append(of, lag)
		}
	}
	if len(of) == 0 {
		of = all
	}
	if len(of) > 0 && (len(of) == 1 || slices.Min(of) >= late || slices.Max(of) < late) {
		return probes.Known(slices.Min(of))
	}
	return probes.Unknown("which replica its look-ups go to cannot be told by the address, and not all of them are behind")
}

// behind is a lag of the replicas that the server has: 0 for none, and for one that
// has replayed everything. It is unknown where the role may not see it.
func (s sample) behind(column string) probes.Number {
	if s.server.Number("replicas").Or(0) == 0 {
		return s.server.Number("replicas")
	}
	if !s.server.Is("sees_all") {
		return probes.Unknown(s.sessionsErr.Error())
	}
	if _, told := s.server[column]; !told {
		return probes.Known(0)
	}
	return s.server.Number(column)
}
