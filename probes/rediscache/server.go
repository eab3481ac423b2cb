package rediscache

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// minServerLookups is how many look-ups the server's hit ratio needs: all
	// clients share it, and some ask for keys that never exist.
	minServerLookups = 500
	// minPings is how many PINGs it takes to tell a round trip.
	minPings = 3
	// slowPing is what no healthy server takes for a PING, in seconds: half of
	// what a whole check may take.
	slowPing = 0.05
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

// moments are when the further PINGs are sent, as parts of the window. Back to
// back they would all hit the same gap between two stalls; at even distances
// they would keep step with stalls that come as regularly.
var moments = [...]float64{0.13, 0.29, 0.47, 0.61, 0.78, 0.93}

// readServer sends the first PING and the first INFO.
func (p *probe) readServer(ctx context.Context, rec *probes.Recorder) serverSample {
	if p.server == nil {
		return serverSample{err: errors.New("no Redis server is configured: set its address to measure the server itself")}
	}
	took, err := p.server.Ping(ctx, rec.Cost())
	if err != nil {
		return serverSample{err: err, told: told(err)}
	}
	return p.readInfo(ctx, rec, []float64{took.Seconds()})
}

// watch sends the further PINGs over the window that has just begun. It returns
// their round trips and what they cost when done is closed or one fails; one
// that is under way then is waited for.
func (p *probe) watch(ctx context.Context, done <-chan struct{}) (took []float64, cost probes.Cost, err error) {
	start := time.Now()
	for _, m := range moments {
		timer := time.NewTimer(time.Until(start.Add(time.Duration(m * float64(p.window)))))
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			return took, cost, nil
		}
		d, err := p.server.Ping(ctx, &cost)
		if err != nil {
			return took, cost, err
		}
		took = append(took, d.Seconds())
	}
	return took, cost, nil
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
	if !source.Dead(b.err) {
		recordPings(rec, b)
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

// recordPings records the round trips, unless there is a better reason why they
// are missing.
func recordPings(rec *probes.Recorder, s serverSample) {
	if len(s.pings) < minPings {
		if s.err == nil {
			rec.Miss("fewer than 3 PINGs were answered in the window", "ping_seconds", "ping_max_seconds", "pings_slow")
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
