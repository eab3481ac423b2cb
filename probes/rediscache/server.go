package rediscache

import (
	"context"
	"errors"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// minServerLookups is how many look-ups the server's hit ratio needs: all
	// clients share it, and some ask for keys that never exist.
	minServerLookups = 500
	// pings is how many PINGs the round trip is the median of.
	pings = 3
)

// serverSample is what the server says about itself at one moment.
type serverSample struct {
	info   source.Info
	sample source.Sample
	pings  []float64
	err    error
	// told is false when there is no server to ask, or the run ended first:
	// then nothing is known about it, not even that it is dead.
	told bool
}

// readServer sends the PINGs and the first INFO.
func (p *probe) readServer(ctx context.Context, rec *probes.Recorder) serverSample {
	if p.server == nil {
		return serverSample{err: errors.New("no Redis server is configured: set its address to measure the server itself")}
	}
	took := make([]float64, 0, pings)
	for range pings {
		d, err := p.server.Ping(ctx, rec.Cost())
		if err != nil {
			return serverSample{err: err, pings: took, told: told(err)}
		}
		took = append(took, d.Seconds())
	}
	return p.readInfo(ctx, rec, took)
}

func (p *probe) readInfo(ctx context.Context, rec *probes.Recorder, took []float64) serverSample {
	info, err := p.server.Info(ctx, rec.Cost())
	return serverSample{
		info: info, err: err, pings: took, told: err == nil || told(err),
		sample: source.Sample{Taken: time.Now(), Epoch: info["run_id"]},
	}
}

// told reports whether err says something about the server.
func told(err error) bool { return !errors.Is(err, source.ErrInterrupted) }

// recordServer records the server's own view from a first and a last sample.
func recordServer(rec *probes.Recorder, a, b serverSample, span source.Span) {
	if b.told {
		dead := source.Dead(b.err)
		rec.SetBool("reachable", !dead)
		rec.SetBool("hung", errors.Is(b.err, source.ErrHung))
		if dead {
			rec.Row(probes.Row{Table: "redis server", Key: "the agent's own connection", Unit: probes.Bool, Note: b.err.Error()})
		}
	}
	if len(b.pings) == pings && !source.Dead(b.err) {
		rec.Set("ping_seconds", probes.Median(b.pings))
	}
	if b.err != nil {
		rec.Miss(b.err.Error(), names(serverFacts())...)
		return
	}
	first, last := a.info, b.info
	delta := func(field string) probes.Number { return span.Delta(first.Number(field), last.Number(field)) }
	clients, limit := last.Number("connected_clients"), last.Number("maxclients")
	rec.Set("connected_clients", clients)
	rec.Set("maxclients", limit)
	rec.Set("clients_ratio", clients.Over(limit, "maxclients is 0"))
	rec.Set("blocked_clients", last.Number("blocked_clients"))
	rec.Set("rejected_connections_rate", span.PerSecond(delta("rejected_connections")))
	rec.Set("new_connections_rate", span.PerSecond(delta("total_connections_received")))
	rec.Set("evicted_keys_rate", span.PerSecond(delta("evicted_keys")))
	rec.Set("expired_keys_rate", span.PerSecond(delta("expired_keys")))
	rec.Set("commands_rate", span.PerSecond(delta("total_commands_processed")))
	used, most := last.Number("used_memory"), last.Number("maxmemory")
	rec.Set("memory_used_bytes", used)
	rec.Set("memory_max_bytes", most)
	rec.Set("memory_ratio", used.Over(most, "").MootIf(most.Or(1) == 0, "maxmemory is 0: memory is unlimited"))
	hits := delta("keyspace_hits")
	lookups := hits.Plus(delta("keyspace_misses"))
	rec.Set("server_hit_ratio", hits.Over(lookups.AtLeast(minServerLookups, "fewer than 500 look-ups in the window"), ""))
	rec.Set("uptime_seconds", last.Number("uptime_in_seconds"))
}
