// Package shards measures the shards of a store: how the service's requests,
// errors, time and connections spread over them, which keys carry the load,
// and whether each shard answers the agent itself.
package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options = source.WindowOptions

// Kind returns the kind of probe that measures the shards of the service
// behind api and asks each of dbs. Either may be empty: the facts that need it
// are then missing. The names of dbs should be those that the service uses.
func Kind(api *source.HTTP, dbs []*source.Postgres) probes.Kind {
	list := make([]database, 0, len(dbs))
	for _, db := range dbs {
		list = append(list, db)
	}
	return kind(api, list)
}

// database is what the probe asks of a shard.
type database interface {
	Name() string
	Address() string
	Ping(ctx context.Context, cost *probes.Cost) (time.Duration, error)
}

var _ database = (*source.Postgres)(nil)

func kind(api *source.HTTP, dbs []database) probes.Kind {
	return probes.Kind{
		Facts:  facts(),
		Tables: []string{tableFailing, tableBusiest, tableSlowest, tableFull, tableShards, tableKeys},
		New: source.Windowed(func(window time.Duration) probes.Probe {
			return &probe{api: api, dbs: dbs, window: window}
		}),
	}
}

type probe struct {
	api    *source.HTTP
	dbs    []database
	window time.Duration
}

// maxShards bounds what a document may make the agent work on.
const maxShards = 1024

// Check implements probes.Probe. It makes two requests to the service and one
// query on every shard with each of them.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(facts())
	first, err := p.read(ctx, rec)
	answers := p.ping(ctx, rec, nil)
	if err != nil {
		recordReach(rec, answers)
		if p.api == nil && len(p.dbs) > 0 {
			rec.Set("shards_total", probes.Known(float64(len(p.dbs))))
		}
		rec.Miss(err.Error(), serviceFacts()...)
		troubleRows(rec, nil, answers)
		reachRows(rec, answers)
		return rec.Evidence(p.name(), 0)
	}
	last, span := first.Next(ctx, p.window, func() (reading, error) {
		second, err := p.read(ctx, rec)
		if err == nil {
			answers = p.ping(ctx, rec, answers)
		}
		return second, err
	})
	recordReach(rec, answers)
	loads := compare(first, last, span)
	recordLoads(rec, loads, span)
	recordKeys(rec, loads)
	recordPools(rec, loads, span)
	recordReplicas(rec, loads, span)
	troubleRows(rec, loads, answers)
	shardRows(rec, loads, answers)
	keyRows(rec, loads)
	return rec.Evidence(p.name(), span.Duration())
}

func (p *probe) name() string {
	name := "no checker"
	if p.api != nil {
		name = p.api.Name()
	}
	if len(p.dbs) > 0 {
		name += ", postgres " + p.dbs[0].Address()
	}
	if len(p.dbs) > 1 {
		name += fmt.Sprintf(" and %d more", len(p.dbs)-1)
	}
	return name
}

// reading is what the service says about its shards at one moment.
type reading = source.Reading[source.Shards]

func (p *probe) read(ctx context.Context, rec *probes.Recorder) (r reading, err error) {
	if p.api == nil {
		return r, errors.New("no checker is configured: set its URL to see the service's own view of the shards")
	}
	if err := p.api.Get(ctx, rec.Cost(), source.PathShards, nil, &r.Doc); err != nil {
		return r, err
	}
	r.Sample = source.Sample{Taken: time.Now(), Now: r.Doc.Now, Epoch: r.Doc.StartedAt.Text()}
	if len(r.Doc.Shards) == 0 {
		return r, fmt.Errorf("GET %s: the document has no shards", source.PathShards)
	}
	if len(r.Doc.Shards) > maxShards {
		return r, fmt.Errorf("GET %s: the document has more than %d shards", source.PathShards, maxShards)
	}
	seen := make(map[string]bool, len(r.Doc.Shards))
	for i, s := range r.Doc.Shards {
		r.Doc.Shards[i].Pool = s.Pool.Sane()
		if s.Shard == "" || seen[s.Shard] {
			return r, fmt.Errorf("GET %s: the shards do not have names of their own", source.PathShards)
		}
		seen[s.Shard] = true
	}
	return r, nil
}
