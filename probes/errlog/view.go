package errlog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regpath/diagnose/probes/source"
)

const (
	// minQuiet is the shortest time without an error of a kind that lets the
	// kind count as new.
	minQuiet = 2 * time.Second
	// minExpected is how many errors of a kind must be absent from a quiet
	// time, at the rate that came after it, for the quiet to be no accident:
	// with 3 expected, none come with a probability of exp(-3) = 5 %.
	minExpected = 3
)

// newness says whether a kind of error is new against the baseline.
type newness int

const (
	unclear newness = iota // not enough is remembered to tell
	known                  // the baseline has it
	fresh                  // it is new
)

// kind is one kind of error.
type kind struct {
	template   *template
	target     string
	latest     int // in the look-back
	before     int // in the baseline
	first      time.Time
	last       time.Time
	newness    newness
	truncated  bool // it is new, but its first errors are forgotten
	manyTarget bool
	// samples are some of its messages with their targets, as they came. They
	// hold what is nobody's business, so nothing of them may leave this package.
	samples []string
}

// view is the errors as seen from now.
type view struct {
	now      time.Time
	lookback time.Duration
	// since is from when on every error is remembered.
	since time.Time
	// born is when the service started; zero when it does not tell.
	born    time.Time
	dropped float64 // how many errors are forgotten
	// gone is which, by layer, where the service tells: a storm in one layer
	// leaves the errors of the others.
	gone  map[string]loss
	total int // errors in the look-back
	// rated and ratedBefore count the errors of the look-back and of the baseline
	// from since on: those of a time from which every layer's are there.
	rated, ratedBefore int
	kinds              []*kind // those in the look-back, the most telling first
	trails             trails  // those in the look-back
}

// loss is how many errors are forgotten, and from when on none is.
type loss struct {
	since   time.Time
	dropped float64
}

// look groups the errors of a document.
func look(doc source.Errors, lookback time.Duration) (*view, error) {
	now, ok := doc.Now.Get()
	switch {
	case !ok:
		return nil, fmt.Errorf("GET %s: now is left out", source.PathErrors)
	case doc.Errors == nil:
		return nil, fmt.Errorf("GET %s: errors is left out", source.PathErrors)
	}
	v := &view{now: now, lookback: lookback}
	v.born, _ = doc.StartedAt.Get()
	entries := slices.Clone(doc.Errors)
	for _, e := range entries {
		if _, ok := e.At.Get(); !ok {
			return nil, fmt.Errorf("GET %s: an error has no time", source.PathErrors)
		}
	}
	slices.SortStableFunc(entries, func(a, b source.LoggedError) int { return at(a).Compare(at(b)) })
	v.remember(doc, entries)
	v.group(entries)
	for _, k := range v.kinds {
		k.newness, k.truncated = v.judge(k)
	}
	slices.SortStableFunc(v.kinds, func(a, b *kind) int {
		if c := cmp.Compare(b.rank(), a.rank()); c != 0 {
			return c
		}
		return cmp.Compare(b.latest, a.latest)
	})
	return v, nil
}

func at(e source.LoggedError) time.Time {
	t, _ := e.At.Get()
	return t
}

// remember works out from when on every error is in the document.
func (v *view) remember(doc source.Errors, entries []source.LoggedError) {
	v.since = v.born
	recorded, ok := doc.Recorded.Get()
	if ok && recorded <= float64(len(entries)) {
		if v.born.IsZero() {
			v.since = v.now // nothing was forgotten, but perhaps nothing was seen
			if len(entries) > 0 {
				v.since = at(entries[0])
			}
		}
		return
	}
	v.dropped = recorded - float64(len(entries))
	v.since = v.now
	if len(entries) > 0 {
		v.since = at(entries[0])
	}
	for layer, g := range doc.Gone {
		since, told := g.KeptSince.Get()
		count, counted := g.Count.Get()
		if !told || !counted {
			v.gone = nil // then nothing is known of any layer but what all have
			return
		}
		if v.gone == nil {
			v.gone = map[string]loss{}
		}
		v.gone[layer] = loss{since, count}
		v.since = later(v.since, since)
	}
}

// lossOf tells what is forgotten of the errors of a layer.
func (v *view) lossOf(layer string) loss {
	if v.gone == nil {
		return loss{v.since, v.dropped}
	}
	if g, ok := v.gone[layer]; ok {
		return g
	}
	if v.born.IsZero() {
		return loss{since: v.since}
	}
	return loss{since: v.born}
}

// group sorts the entries into kinds and counts them.
func (v *view) group(entries []source.LoggedError) {
	d := newDrain()
	byTemplate := make(map[*template]*kind)
	start, base := v.now.Add(-v.lookback), v.now.Add(-2*v.lookback)
	for _, e := range entries {
		when := at(e)
		if when.Before(base) {
			continue
		}
		t := d.add(keyOf(e), mask(clip(e.Message, maxMessage)))
		k := byTemplate[t]
		if k == nil {
			k = &kind{template: t, target: e.Target}
			byTemplate[t] = k
		}
		if when.Before(start) {
			k.before++
			if !when.Before(v.since) {
				v.ratedBefore++
			}
			continue
		}
		if k.latest == 0 {
			k.first = when
			v.kinds = append(v.kinds, k)
		}
		if len(k.samples) < maxSamples {
			k.samples = append(k.samples, strings.ToLower(clip(e.Message, maxMessage)+" "+clip(e.Target, maxMessage)))
		}
		k.latest++
		v.trails.count(e)
		v.total++
		if !when.Before(v.since) {
			v.rated++
		}
		k.last = when
		k.manyTarget = k.manyTarget || k.target != e.Target
	}
}

// maxSamples is how many messages of a kind are held against the changes.
const maxSamples = 20

// maxMessage is how much of a message is looked at, in characters.
const maxMessage = 500

// judge says whether a kind is new: absent from a baseline that is fully
// remembered; or, where the service is younger or has forgotten, absent for
// long enough before its first error; or more frequent now than all that was
// forgotten could account for.
func (v *view) judge(k *kind) (n newness, truncated bool) {
	if k.before > 0 {
		return known, false
	}
	base := v.now.Add(-2 * v.lookback)
	lost := v.lossOf(k.template.group.layer)
	if !lost.since.After(base) {
		return fresh, false
	}
	rate := float64(k.latest) / max(v.now.Sub(k.first).Seconds(), 1)
	quiet := k.first.Sub(lost.since)
	if quiet >= minQuiet && rate*quiet.Seconds() >= minExpected {
		return fresh, false
	}
	if lost.dropped > 0 && !v.born.IsZero() {
		unseen := lost.since.Sub(later(v.born, base))
		if unseen >= minQuiet && lost.dropped < rate*unseen.Seconds()/2 {
			return fresh, true
		}
	}
	return unclear, false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// rank orders kinds by how much they changed: new ones first, then unclear
// ones, then those that at least doubled.
func (k *kind) rank() int {
	switch {
	case k.newness == fresh:
		return 3
	case k.newness == unclear:
		return 2
	case k.latest >= 2*k.before:
		return 1
	}
	return 0
}

func (k *kind) other() bool {
	switch k.template.group.layer {
	case "redis", "shard", "bloom":
		return false
	}
	return true
}

// largest returns the largest new kind that matches, nil if there is none.
func (v *view) largest(match func(*kind) bool) *kind {
	for _, k := range v.kinds { // new ones first, largest first
		if k.newness == fresh && match(k) {
			return k
		}
	}
	return nil
}
