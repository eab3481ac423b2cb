package rediscache

import (
	"errors"
	"slices"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// minServerLookups is how many look-ups the server's hit ratio needs: all
	// clients share it, and some ask for keys that never exist.
	minServerLookups = 500
	// minPings is how many round trips it takes to tell one.
	minPings = 3
	// slowPing is what no healthy server takes for a PING, in seconds: half of
	// what a whole check may take.
	slowPing = 0.05
)

// recordServer records the server's own view from a first and a last sample.
func recordServer(rec *probes.Recorder, a, b serverSample, span source.Span) {
	if b.told {
		dead := source.Dead(b.err)
		rec.SetBool("reachable", !dead)
		rec.SetBool("hung", errors.Is(b.err, source.ErrHung))
		rec.SetBool("turned_away", errors.Is(b.err, source.ErrFull))
		if dead {
			rec.Row(probes.Row{Table: tableServer, Key: "the agent's own connection", Unit: probes.Bool, Note: b.err.Error()})
		}
	}
	if !source.Dead(b.err) {
		recordPings(rec, b)
	}
	if b.err != nil {
		lack(rec, b.err, names(serverFacts())...)
		return
	}
	first, last := a.info, b.info
	recordClients(rec, first, last, span)
	recordRefusals(rec, first, last, span)
	recordMemory(rec, first, last, span)
	recordCommands(rec, first, last, span)
	recordPersistence(rec, first, last, span)
	rec.Set("uptime_seconds", last.Number("uptime_in_seconds"))
}

func recordClients(rec *probes.Recorder, first, last source.Info, span source.Span) {
	clients, limit := last.Number("connected_clients"), last.Number("maxclients")
	rec.Set("connected_clients", clients)
	rec.Set("maxclients", limit)
	rec.Set("clients_ratio", clients.Over(limit, "maxclients is 0"))
	rec.Set("blocked_clients", last.Number("blocked_clients"))
	rec.Set("rejected_connections_rate", rate(first, last, span, "rejected_connections"))
	rec.Set("new_connections_rate", rate(first, last, span, "total_connections_received"))
}

// recordRefusals records why the server refuses writes.
func recordRefusals(rec *probes.Recorder, first, last source.Info, span source.Span) {
	for prefix, fact := range map[string]string{
		"OOM": "oom_errors_rate", "MISCONF": "misconf_errors_rate", "READONLY": "readonly_errors_rate",
	} {
		rec.Set(fact, span.Rate(first.ErrorReplies(prefix), last.ErrorReplies(prefix)))
	}
	if role, ok := last["role"]; ok {
		rec.SetBool("replica", role == "slave" || role == "replica")
	}
	rdb, ok1 := last["rdb_last_bgsave_status"]
	aof, ok2 := last["aof_last_write_status"]
	if ok1 || ok2 {
		rec.SetBool("save_failed", ok1 && rdb != "ok" || ok2 && aof != "ok")
	}
	if policy, ok := last["maxmemory_policy"]; ok {
		rec.SetBool("noeviction", policy == "noeviction")
	}
	rec.Lack(source.NotInInfo, "replica", "save_failed", "noeviction")
}

func recordMemory(rec *probes.Recorder, first, last source.Info, span source.Span) {
	rec.Set("evicted_keys_rate", rate(first, last, span, "evicted_keys"))
	rec.Set("expired_keys_rate", rate(first, last, span, "expired_keys"))
	used, most := last.Number("used_memory"), last.Number("maxmemory")
	rec.Set("memory_used_bytes", used)
	rec.Set("memory_max_bytes", most)
	rec.Set("memory_ratio", used.Over(most, "").MootIf(most.Or(1) == 0, "maxmemory is 0: memory is unlimited"))
	hits := delta(first, last, span, "keyspace_hits")
	lookups := hits.Plus(delta(first, last, span, "keyspace_misses"))
	rec.Set("server_hit_ratio", hits.Over(lookups.AtLeast(minServerLookups, "fewer than 500 look-ups in the window"), ""))
}

// delta is by how much a counter of INFO grew over the span.
func delta(first, last source.Info, span source.Span, field string) probes.Number {
	return span.Delta(first.Number(field), last.Number(field))
}

func rate(first, last source.Info, span source.Span, field string) probes.Number {
	return span.PerSecond(delta(first, last, span, field))
}

// lack records that the facts cannot be had because of err.
func lack(rec *probes.Recorder, err error, facts ...string) {
	for _, f := range facts {
		rec.Set(f, source.Lacking(err))
	}
}

// recordPings records the round trips, unless there is a better reason why they
// are missing.
func recordPings(rec *probes.Recorder, s serverSample) {
	if len(s.pings) < minPings {
		if s.err == nil {
			rec.Lack("fewer than 3 round trips in the window", "ping_seconds", "ping_max_seconds", "pings_slow")
		}
		return
	}
	slow := 0
	for _, took := range s.pings {
		if took >= slowPing {
			slow++
		}
	}
	rec.Set("ping_seconds", probes.Median(s.pings))
	rec.Set("ping_max_seconds", probes.Known(slices.Max(s.pings)))
	rec.Set("pings_slow", probes.Known(float64(slow)))
}
