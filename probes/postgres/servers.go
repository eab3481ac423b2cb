package postgres

import "github.com/regpath/diagnose/probes"

// recordServers records what there is one of per server: transactions, whether it
// takes writes, how far replicas are behind, sequences.
func recordServers(rec *probes.Recorder, shards []shard) {
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
	recordReplicas(rec, shards)
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
func recordReplicas(rec *probes.Recorder, shards []shard) {
	rec.Set("replicas", over(shards, func(s shard) probes.Number { return s.last.server.Number("replicas") }, sum))
	bytes := lower(func(s sample) probes.Number { return s.behind("lag_bytes").Clamp(0, 1e18) })
	seconds := lower(func(s sample) probes.Number {
		lag := s.behind("lag_seconds").Clamp(0, maxAge)
		if _, own := s.server["own_lag"]; own {
			return lag.Higher(s.server.Number("own_lag").Clamp(0, maxAge))
		}
		return lag
	})
	rec.Set("replay_lag_bytes", over(shards, bytes, highest))
	rec.Set("replay_lag_seconds", over(shards, seconds, highest))
	for _, s := range shards {
		if s.err() != nil {
			continue
		}
		if lag := seconds(s); lag.Or(0) >= 1 {
			row(rec, tableReplicas, s.name, lag, probes.Seconds, "%.0f bytes of its log are not replayed", bytes(s).Or(0))
		}
	}
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
