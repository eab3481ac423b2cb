package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// found is what a shard holds: names of a sample, and the version of its routing table.
type found struct {
	err     error
	names   []string
	version probes.Number
}

// recordRouting takes a sample of names from every shard and asks the service on
// which shard it looks for them. Names stay in memory.
func (p *probe) recordRouting(ctx context.Context, rec *probes.Recorder, shards []shard) {
	miss := func(n probes.Number) {
		for _, fact := range []string{"names_routed", "names_misplaced", "routing_differs"} {
			rec.Set(fact, n)
		}
	}
	switch {
	case len(p.dbs) == 0:
		miss(probes.Absent(noShard))
		return
	case p.api == nil:
		miss(probes.Absent("no checker is configured: set its URL to ask where it looks for names"))
		return
	case probes.Recording(ctx):
		miss(probes.Unknown("not compared for the record: samples of names are not cheap"))
		return
	}
	p.sampleNames(ctx, rec, shards)
	var names, at []string
	for _, s := range shards {
		for _, n := range s.found.names {
			names, at = append(names, n), append(at, s.name)
		}
	}
	if len(names) == 0 {
		none := over(shards, func(s shard) probes.Number { return s.found.unknown() }, sum)
		if none.Why() == "" {
			none = probes.Absent("no shard holds a name")
		}
		miss(none)
		return
	}
	var routes source.Routes
	if err := p.api.Post(ctx, rec.Cost(), source.PathRoute, source.RouteRequest{Names: names}, &routes); err != nil {
		miss(source.Lacking(err))
		return
	}
	if len(routes.Shards) != len(names) {
		miss(probes.Unknown(fmt.Sprintf("POST %s: %d answers for %d names", source.PathRoute, len(routes.Shards), len(names))))
		return
	}
	known := map[string]bool{}
	for _, s := range shards {
		known[s.name] = true
	}
	wrong := map[string]int{}
	routed, misplaced := 0, 0
	for i, to := range routes.Shards {
		if !known[to] { // the name is on the move, or the agent calls the shard otherwise
			continue
		}
		routed++
		if to != at[i] {
			misplaced++
			wrong[at[i]]++
		}
	}
	rec.Set("names_routed", probes.Known(float64(routed)))
	if routed == 0 {
		rec.Lack("the service names none of the shards that the agent knows", "names_misplaced")
	}
	rec.Set("names_misplaced", probes.Known(float64(misplaced)))
	rec.Set("routing_differs", count(shards, func(s shard) probes.Number { return s.found.differs(routes.Version) }))
	for _, s := range shards {
		if wrong[s.name] > 0 {
			row(rec, tableMisplaced, s.name, probes.Known(float64(wrong[s.name])), probes.Count,
				"of %d names sampled there, the service looks for these elsewhere", len(s.found.names))
		} else if s.found.differs(routes.Version).Or(0) > 0 {
			row(rec, tableMisplaced, s.name, probes.Known(0), probes.Count, "its routing table has version %.0f, the service's %.0f",
				s.found.version.Or(0), routes.Version.Or(0))
		}
	}
}

// unknown is why there are no names.
func (f found) unknown() probes.Number {
	if f.err != nil {
		return source.Lacking(f.err)
	}
	return probes.Known(0)
}

// differs is 1 if the shard's routing table has another version than the service's.
func (f found) differs(version probes.Number) probes.Number {
	d := f.version.Minus(version)
	if d.Or(0) != 0 {
		return probes.Known(1)
	}
	return d
}

// sampleNames takes a sample from every shard that answers, all at once.
func (p *probe) sampleNames(ctx context.Context, rec *probes.Recorder, shards []shard) {
	costs := make([]probes.Cost, len(shards))
	var wg sync.WaitGroup
	for i, s := range shards {
		wg.Go(func() { shards[i].found = p.sampleOne(ctx, &costs[i], p.dbs[i], s) })
	}
	wg.Wait()
	for _, c := range costs {
		*rec.Cost() = rec.Cost().Plus(c)
	}
}

func (p *probe) sampleOne(ctx context.Context, cost *probes.Cost, db database, s shard) found {
	none := found{version: probes.Absent("the shard keeps no routing table that the agent's role may read")}
	var places []place
	switch {
	case s.err() != nil:
		none.err = s.err()
		return none
	case s.last.tablesErr != nil:
		none.err = s.last.tablesErr
		return none
	}
	routing := false
	for _, r := range s.last.tables {
		routing = r.Is("routing")
		if r.Is("readable") && r.Number("live").Or(0) > 0 && len(places) < sampledTables {
			places = append(places, place{table: r.Text("name"), pages: r.Number("pages").Or(1)})
		}
	}
	if len(places) == 0 && !routing {
		none.err = source.NotOffered("the agent's role may read no table of names: GRANT SELECT ON it, to compare where names are and where they are looked for")
		return none
	}
	rows, err := db.Query(ctx, cost, "names", namesQuery(p.options, places, routing))
	if err != nil {
		none.err, none.version = err, source.Lacking(err)
		return none
	}
	for _, r := range rows {
		if name, ok := r["name"]; ok {
			none.names = append(none.names, name)
		} else if routing {
			none.version = r.Number("version")
		}
	}
	return none
}
