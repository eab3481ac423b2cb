// Package bloom measures a Bloom filter in front of a store of names, by four
// estimators that are blind to different faults: the fill (overfilling), the
// names counted in (headroom, and by which path they came), canaries that
// cannot exist (the real false-positive rate, defects of hash and
// normalisation included) and names that do exist (lost or missing entries).
package bloom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options struct {
	// Positives is how many existing names to test against the filter: 1 to
	// 5000, 1000 unless set.
	Positives int `yaml:"positives"`
	// MinAge leaves out names registered in the last moments, which may still
	// be on their way into the filter: 5 s unless set, at most an hour.
	MinAge time.Duration `yaml:"min_age"`
}

// Kind returns the kind of probe that measures the filter of the service
// behind api. api may be nil: every fact is then missing.
func Kind(api *source.HTTP) probes.Kind {
	return probes.Kind{
		Facts:  facts(),
		Tables: []string{tableNames, tableGroups},
		New: func(decode func(any) error) (probes.Probe, error) {
			o := Options{Positives: 1000, MinAge: 5 * time.Second}
			if err := decode(&o); err != nil {
				return nil, err
			}
			if o.Positives < 1 || o.Positives > 5000 {
				return nil, fmt.Errorf("positives: %d is not between 1 and 5000", o.Positives)
			}
			if o.MinAge < 0 || o.MinAge > time.Hour {
				return nil, fmt.Errorf("min_age: %v is not between 0 and 1h", o.MinAge)
			}
			return &probe{api: api, options: o}, nil
		},
	}
}

type probe struct {
	api     *source.HTTP
	options Options
}

// Check implements probes.Probe. It makes three requests, and one more (at
// most two) while the canaries leave the rate undecided.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(facts())
	if p.api == nil {
		rec.MissRest("no checker is configured: set its URL")
		return rec.Evidence("no checker", 0)
	}
	var doc source.Bloom
	err := p.api.Get(ctx, rec.Cost(), source.PathBloom, nil, &doc)
	if stop(err) {
		rec.MissRest(err.Error())
		return rec.Evidence(p.api.Name(), 0)
	}
	target := filter(rec, doc, err)
	if probes.Recording(ctx) {
		rec.MissRest("not tested for the record: canaries and samples of names are not cheap")
		return rec.Evidence(p.api.Name(), 0)
	}
	canaryErr := p.canaries(ctx, rec, target)
	if !stop(canaryErr) {
		p.positives(ctx, rec)
	} else {
		rec.Miss(canaryErr.Error(), positiveFacts()...)
	}
	return rec.Evidence(p.api.Name(), 0)
}

// stop reports whether it is of no use to ask the service for anything else.
func stop(err error) bool {
	return source.Dead(err) || errors.Is(err, source.ErrInterrupted)
}

// filter records what follows from the filter's own document and returns the
// rate that the filter was sized for.
func filter(rec *probes.Recorder, doc source.Bloom, err error) (target probes.Number) {
	if err != nil {
		rec.Miss(err.Error(), "fill_ratio", "predicted_fp_rate", "target_fp_rate", "capacity", "names_added",
			"capacity_used_ratio", "headroom_names", "query_adds", "query_adds_share", "register_adds",
			"registrations", "lost_adds", "lost_adds_share", "unexplained_adds_share", "age_seconds")
		return probes.Unknown(err.Error())
	}
	fill := doc.SetBits.Over(doc.M, "the filter has no bits")
	fill = fill.If(fill.Or(0) <= 1, "set_bits is larger than m")
	rec.Set("fill_ratio", fill)
	rec.Set("predicted_fp_rate", predicted(fill, doc.K))

	target = doc.TargetRate.If(doc.TargetRate.Or(0) > 0 && doc.TargetRate.Or(0) < 1, "target_rate is not between 0 and 1")
	rec.Set("target_fp_rate", target)
	rec.Set("capacity", doc.Capacity)
	rec.Set("names_added", doc.NamesAdded)
	rec.Set("capacity_used_ratio", doc.NamesAdded.Over(doc.Capacity, "capacity is 0"))
	rec.Set("headroom_names", doc.Capacity.Minus(doc.NamesAdded))

	adds := doc.AddsBySource
	rec.Set("query_adds", adds.Query)
	rec.Set("query_adds_share", share(adds.Query, doc.NamesAdded))
	rec.Set("register_adds", adds.Register)
	rec.Set("registrations", doc.Registrations)
	lost := doc.Registrations.Minus(adds.Register).Clamp(0, math.MaxFloat64)
	rec.Set("lost_adds", lost)
	rec.Set("lost_adds_share", share(lost, doc.Registrations))
	unexplained := doc.NamesAdded.Minus(adds.Build).Minus(doc.Registrations)
	rec.Set("unexplained_adds_share", share(unexplained, doc.NamesAdded))
	rec.Set("age_seconds", doc.BuiltAt.Since(doc.Now, "built_at"))
	return target
}

// predicted returns fill^k: each of the k hashes of a name that was never
// added meets a set bit with probability fill (B. H. Bloom, "Space/time
// trade-offs in hash coding with allowable errors", CACM 13, 1970).
func predicted(fill, k probes.Number) probes.Number {
	f, ok := fill.Get()
	if !ok {
		return fill
	}
	hashes, ok := k.Get()
	if !ok {
		return k
	}
	if hashes < 1 {
		return probes.Unknown("k is less than 1")
	}
	return probes.Known(math.Pow(f, hashes))
}

// share returns part/whole within [0, 1]; no part of nothing is 0, because an
// empty filter has no wrong adds.
func share(part, whole probes.Number) probes.Number {
	if v, ok := whole.Get(); ok && v == 0 {
		return part.Clamp(0, 0)
	}
	return part.Over(whole, "").Clamp(0, 1)
}
