// Package consistency measures whether the layers of a service agree about
// names that exist: what the caches say of names that have an owner, and
// whether names are in a state that no move of theirs leads to.
package consistency

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options struct {
	// Names is how many names to compare: 1 to 5000, 1000 unless set.
	Names int `yaml:"names"`
	// MinAge leaves out names registered in the last moments, of which not all
	// layers need know: 5 s unless set, at most an hour.
	MinAge time.Duration `yaml:"min_age"`
}

const (
	// tableShards has the shards that could not be asked.
	tableShards = "not compared"
	maxRows     = 16
)

// Kind returns the kind of probe that lets the service behind api compare its
// layers. api may be nil: every fact is then missing.
func Kind(api *source.HTTP) probes.Kind {
	return probes.Kind{
		Facts:  facts(),
		Tables: []string{tableShards},
		New: func(decode func(any) error) (probes.Probe, error) {
			o := Options{Names: 1000, MinAge: 5 * time.Second}
			if err := decode(&o); err != nil {
				return nil, err
			}
			if o.Names < 1 || o.Names > 5000 {
				return nil, fmt.Errorf("names: %d is not between 1 and 5000", o.Names)
			}
			if o.MinAge < 0 || o.MinAge > time.Hour {
				return nil, fmt.Errorf("min_age: %v is not between 0 and 1h", o.MinAge)
			}
			return &probe{api: api, options: o}, nil
		},
	}
}

// facts documents what the probe can return.
func facts() []probes.FactDoc {
	return []probes.FactDoc{
		{Name: "names_compared", Help: "How many names that exist were compared, drawn from all shards and from the latest registrations."},
		{Name: "latest_compared", Help: "How many of them are the latest registrations through the service that was asked."},
		{Name: "redis_asked", Help: "Of how many names with an owner Redis was asked."},
		{Name: "redis_free", Help: "Of how many of them Redis says that they are free, which is wrong.", Expected: "0"},
		{Name: "local_asked", Help: "Of how many names with an owner the service's local cache was asked."},
		{Name: "local_free", Help: "Of how many of them the local cache says that they are free, which is wrong.", Expected: "0"},
		{Name: "released", Help: "How many of the names drawn are in their cool-down."},
		{Name: "released_too_early", Help: "How many of them have a cool-down that ends sooner after they got their owner than the rules allow.", Expected: "0"},
	}
}

type probe struct {
	api     *source.HTTP
	options Options
}

// Check implements probes.Probe. It makes one request.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(facts())
	if p.api == nil {
		rec.MissRest("no checker is configured: set its URL")
		return rec.Evidence("no checker", 0)
	}
	if probes.Recording(ctx) {
		rec.MissRest("not compared for the record: names of all shards are not cheap")
		ev, _ := rec.Evidence(p.api.Name(), 0)
		return ev, probes.ErrNotRecorded
	}
	query := url.Values{"n": {strconv.Itoa(p.options.Names)}, "min_age": {p.options.MinAge.String()}}
	var doc source.Consistency
	if err := p.api.Get(ctx, rec.Cost(), source.PathConsistency, query, &doc); err != nil {
		rec.MissRest(err.Error())
		return rec.Evidence(p.api.Name(), 0)
	}
	rec.Set("names_compared", doc.Sampled.Plus(doc.Latest))
	rec.Set("latest_compared", doc.Latest)
	recordCache(rec, "redis", doc.Redis)
	recordCache(rec, "local", doc.Local)
	blind := unasked(rec, doc)
	released := doc.States.Released.If(blind == "" || doc.Sampled.Or(0) > 0, blind)
	rec.Set("released", released)
	early := doc.States.TooEarly.If(blind == "" || doc.Sampled.Or(0) > 0, blind)
	rec.Set("released_too_early", early.If(early.Or(0) <= released.Or(0), "states.too_early is larger than states.released"))
	return rec.Evidence(p.api.Name(), 0)
}

// recordCache records what a cache says about names that have an owner.
func recordCache(rec *probes.Recorder, name string, c source.CachedNames) {
	if c.Error != "" {
		why := probes.Unknown(name + " could not be asked: " + c.Error)
		c.Asked, c.Free = why, why
	}
	rec.Set(name+"_asked", c.Asked)
	rec.Set(name+"_free", c.Free.If(c.Free.Or(0) <= c.Asked.Or(0), name+".free is larger than "+name+".asked"))
}

// unasked lists the shards that could not be asked and says which was the last.
func unasked(rec *probes.Recorder, doc source.Consistency) (why string) {
	for _, s := range doc.Shards[:min(len(doc.Shards), maxRows)] {
		if s.Error == "" {
			continue
		}
		why = fmt.Sprintf("no names could be drawn (%s: %s)", s.Shard, s.Error)
		rec.Row(probes.Row{Table: tableShards, Key: s.Shard, Unknown: true, Note: s.Error})
	}
	return why
}
