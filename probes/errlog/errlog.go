// Package errlog measures a service's latest errors: how many, of how many
// kinds, what is new against the time before, and whether a change preceded it.
// Kinds are found by masking what varies and grouping what is left; names of
// people and secrets do not survive that.
//
// Errors are ranked by change, not by volume: what was there yesterday is not
// the cause of today's incident.
package errlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options struct {
	// Lookback is how far back "latest" goes: 10 s to 1 h, 60 s unless set. It
	// should be longer than an alert takes to fire, or the incident's own
	// errors are its baseline.
	Lookback time.Duration `yaml:"lookback"`
}

const (
	defaultLookback = 60 * time.Second
	minLookback     = 10 * time.Second
	maxLookback     = time.Hour
)

// Kind returns the kind of probe that reads the errors and changes of the
// service behind api. api may be nil: every fact is then missing.
func Kind(api *source.HTTP) probes.Kind {
	return probes.Kind{
		Facts:  facts(),
		Tables: []string{"changes", "errors"},
		New: func(decode func(any) error) (probes.Probe, error) {
			o := Options{Lookback: defaultLookback}
			if err := decode(&o); err != nil {
				return nil, err
			}
			if o.Lookback < minLookback || o.Lookback > maxLookback {
				return nil, fmt.Errorf("lookback: %v is not between %v and %v", o.Lookback, minLookback, maxLookback)
			}
			return &probe{api: api, lookback: o.Lookback}, nil
		},
	}
}

type probe struct {
	api      *source.HTTP
	lookback time.Duration
}

// Check implements probes.Probe. It makes two requests.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(facts())
	if p.api == nil {
		rec.MissRest("no checker is configured: set its URL")
		return rec.Evidence("no checker", 0)
	}
	var doc source.Errors
	err := p.api.Get(ctx, rec.Cost(), source.PathErrors, nil, &doc)
	var changes source.Changes
	changesErr := err
	if !source.Dead(err) && !errors.Is(err, source.ErrInterrupted) {
		changesErr = p.api.Get(ctx, rec.Cost(), source.PathChanges, nil, &changes)
		if changesErr == nil && changes.Changes == nil {
			changesErr = fmt.Errorf("GET %s: changes is left out", source.PathChanges)
		}
	}
	var v *view
	if err == nil {
		v, err = look(doc, p.lookback)
	}
	if changesErr != nil {
		rec.Miss(changesErr.Error(), changeFacts...)
	} else {
		recordChanges(rec, changes, v, err)
	}
	if err != nil {
		rec.MissRest(err.Error())
	} else {
		v.record(rec)
	}
	return rec.Evidence(p.api.Name(), p.lookback)
}
