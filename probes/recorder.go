package probes

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Recorder collects the evidence of one Check. It makes sure that every
// documented fact comes out exactly once, either as a Fact or as Missing with
// a reason, in the documented order. The first word about a name counts. A Recorder serves one Check
// and one goroutine.
type Recorder struct {
	docs    []FactDoc
	said    map[string]bool
	ev      Evidence
	reasons []string
}

// NewRecorder returns a Recorder for the facts documented in docs.
func NewRecorder(docs []FactDoc) *Recorder {
	return &Recorder{docs: docs, said: make(map[string]bool, len(docs))}
}

// Cost returns the running cost of the Check, for sources to add to.
func (r *Recorder) Cost() *Cost { return &r.ev.Cost }

// Set records a number, or why it is missing.
func (r *Recorder) Set(name string, n Number) { r.set(name, n, nil) }

// SetSampled records a number that was estimated from a sample, with its 95 %
// confidence interval.
func (r *Recorder) SetSampled(name string, n Number, iv Interval) { r.set(name, n, &iv) }

// SetBool records a truth value.
func (r *Recorder) SetBool(name string, v bool) {
	n := Known(0)
	if v {
		n = Known(1)
	}
	r.set(name, n, nil)
}

// Miss records that the named facts could not be measured, and why.
func (r *Recorder) Miss(why string, names ...string) {
	for _, name := range names {
		r.set(name, Unknown(why), nil)
	}
}

// Moot records that there is nothing to measure for the named facts, and why.
func (r *Recorder) Moot(why string, names ...string) {
	for _, name := range names {
		r.set(name, Number{}.MootIf(true, why), nil)
	}
}

// Lack records that the named facts are not to be had here, and why.
func (r *Recorder) Lack(why string, names ...string) {
	for _, name := range names {
		r.set(name, Absent(why), nil)
	}
}

// MissRest records the reason for every documented fact about which nothing
// was said.
func (r *Recorder) MissRest(why string) {
	for _, d := range r.docs {
		r.Miss(why, d.Name)
	}
}

// Row adds a row. Its key and note, which may come from outside, are cut to what a
// report can hold.
func (r *Recorder) Row(row Row) {
	row.Key, row.Note = clip(row.Key), clip(row.Note)
	r.ev.Rows = append(r.ev.Rows, row)
}

// maxText is how many runes of a text a report holds: twice the longest template of an
// error, so that it cuts nothing that a probe has cut on purpose.
const maxText = 400

func clip(s string) string {
	n := 0
	for i := range s {
		if n++; n > maxText {
			return s[:i] + "…"
		}
	}
	return s
}

// Evidence closes the record. It returns an error, with the evidence that says
// what was tried, when not a single fact could be measured.
func (r *Recorder) Evidence(source string, window time.Duration) (Evidence, error) {
	r.MissRest("not measured")
	r.ev.Source, r.ev.Window, r.ev.At = source, window, time.Now()
	slices.SortStableFunc(r.ev.Facts, func(a, b Fact) int { return r.index(a.Name) - r.index(b.Name) })
	for _, m := range r.ev.Missing {
		slices.SortStableFunc(m.Facts, func(a, b string) int { return r.index(a) - r.index(b) })
	}
	if len(r.ev.Facts) == 0 {
		reasons := r.reasons[:min(len(r.reasons), 3)]
		return r.ev, errors.New(strings.Join(reasons, reasonSeparator))
	}
	return r.ev, nil
}

// reasonSeparator stands between the reasons for which nothing was measured.
const reasonSeparator = "; "

// Reasons takes apart the text of an error of [Recorder.Evidence].
func Reasons(text string) []string { return strings.Split(text, reasonSeparator) }

func (r *Recorder) set(name string, n Number, iv *Interval) {
	if r.said[name] {
		return
	}
	r.said[name] = true
	v, ok := n.Get()
	if !ok {
		r.miss(name, n)
		return
	}
	var unit Unit
	if i := r.index(name); i >= 0 {
		unit = r.docs[i].Unit
	}
	r.ev.Facts = append(r.ev.Facts, Fact{Name: name, Value: v, Unit: unit, Interval: iv})
}

// index is the place of a fact in the documentation, -1 if it has none.
func (r *Recorder) index(name string) int {
	return slices.IndexFunc(r.docs, func(d FactDoc) bool { return d.Name == name })
}

func (r *Recorder) miss(name string, n Number) {
	why := clip(n.Why())
	next := Missing{Reason: why, Moot: n.kind == moot, Absent: n.kind == absent}
	i := slices.IndexFunc(r.ev.Missing, func(m Missing) bool {
		return m.Reason == why && m.Moot == next.Moot && m.Absent == next.Absent
	})
	if i < 0 {
		r.ev.Missing = append(r.ev.Missing, next)
		r.reasons = append(r.reasons, why)
		i = len(r.ev.Missing) - 1
	}
	r.ev.Missing[i].Facts = append(r.ev.Missing[i].Facts, name)
}
