// Package rediscache measures a Redis cache from both ends: the server, over
// the agent's own connection, and the service's view of it, from its pool and
// counters. The two together tell a slow or full server from a pool that is
// too small or leaks.
//
// Of the pool, gauges are the evidence and counters are not: a pool starved by
// deadlines shorter than its own timeout counts neither waits nor timeouts. A
// gauge of one moment is none either, as a starved pool dials its connections
// again and again; the shortest queue and the most idle connections over the
// samples are.
package rediscache

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options = source.WindowOptions

// Kind returns the kind of probe that measures the cache of the service behind
// api, and the Redis server behind redis. Either may be nil: the facts that
// need it are then missing.
func Kind(api *source.HTTP, redis *source.Redis) probes.Kind {
	var s server
	if redis != nil {
		s = redis
	}
	return kind(api, s)
}

// server is what the probe asks of a Redis server.
type server interface {
	Name() string
	Ping(ctx context.Context, cost *probes.Cost) (time.Duration, error)
	PingKept(ctx context.Context, cost *probes.Cost) (time.Duration, error)
	Info(ctx context.Context, cost *probes.Cost) (source.Info, time.Duration, error)
	Details(ctx context.Context, cost *probes.Cost, clients bool) (source.Details, error)
}

var _ server = (*source.Redis)(nil)

func kind(api *source.HTTP, s server) probes.Kind {
	return probes.Kind{
		Facts:  append(serverFacts(), clientFacts()...),
		Tables: []string{tableServer, tableSlow, tableClients},
		New: source.Windowed(func(window time.Duration) probes.Probe {
			return &probe{api: api, server: s, window: window}
		}),
	}
}

type probe struct {
	api    *source.HTTP
	server server
	window time.Duration
}

// The tables.
const (
	tableServer  = "redis server"
	tableSlow    = "slow commands"
	tableClients = "clients"
)

// Check implements probes.Probe. It makes two requests to the service, and
// sends the server six PINGs, INFO twice, and asks once for its slow log, its
// latency monitor and its connections: maxCommands at most, whatever happens.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(append(serverFacts(), clientFacts()...))
	client, srv := p.readClient(ctx, rec), p.readServer(ctx, rec)
	none := "no second sample: the first one failed"
	var span source.Span
	if client.err == nil || srv.err == nil {
		none = ""
		if err := p.wait(ctx, rec, &srv); err != nil {
			none = err.Error()
		}
	}
	if none != "" {
		recordClient(rec, client, client, source.NoSpan(none))
		recordServer(rec, srv, srv, source.NoSpan(none))
		recordDetails(rec, client.doc, srv)
	} else {
		span = p.again(ctx, rec, client, srv)
	}
	return rec.Evidence(p.name(), span.Duration())
}

// wait waits for the window while the server, if it answers, gets its PINGs.
func (p *probe) wait(ctx context.Context, rec *probes.Recorder, srv *serverSample) error {
	if srv.err != nil {
		return source.Wait(ctx, p.window)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	var took []float64
	var cost probes.Cost
	var lost error
	spent := rec.Cost().RedisCommands
	wg.Go(func() { took, cost, lost = p.watch(ctx, done, spent) })
	err := source.Wait(ctx, p.window)
	close(done)
	wg.Wait()
	*rec.Cost() = rec.Cost().Plus(cost)
	srv.pings = append(srv.pings, took...)
	if lost != nil && !errors.Is(lost, source.ErrLost) && told(lost) {
		srv.err, srv.told = lost, true
	}
	return err
}

// again takes the second samples, records everything, and returns the span of
// the rates.
func (p *probe) again(ctx context.Context, rec *probes.Recorder, client clientSample, srv serverSample) source.Span {
	clientSpan, serverSpan := source.NoSpan("no second sample"), source.NoSpan("no second sample")
	client2, srv2 := client, srv
	if client.err == nil {
		if client2 = p.readClient(ctx, rec); client2.err == nil {
			clientSpan = source.Between(client.sample, client2.sample)
		} else {
			clientSpan = source.NoSpan(client2.err.Error())
			client2.doc = client.doc // the gauges of the first sample still stand
			client2.err = nil
		}
	}
	if srv.err == nil {
		if srv2 = p.readInfo(ctx, rec, srv.pings); srv2.err == nil {
			serverSpan = source.Between(srv.sample, srv2.sample)
			p.readDetails(ctx, rec, &srv2)
		}
	}
	recordClient(rec, client, client2, clientSpan)
	recordServer(rec, srv, srv2, serverSpan)
	recordDetails(rec, client2.doc, srv2)
	if clientSpan.Duration() > 0 {
		return clientSpan
	}
	return serverSpan
}

func (p *probe) name() string {
	switch {
	case p.api != nil && p.server != nil:
		return p.api.Name() + ", " + p.server.Name()
	case p.api != nil:
		return p.api.Name()
	case p.server != nil:
		return p.server.Name()
	}
	return "neither a checker nor a Redis server"
}
