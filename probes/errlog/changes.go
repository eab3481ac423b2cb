package errlog

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// relevant is how long before an error a change may have been to be its
	// likely cause.
	relevant = 10 * time.Minute
	// slack allows for a change that is written down a moment after it works.
	slack      = time.Second
	maxChanges = 5
	maxValue   = 60
)

// recordChanges records when the service was changed, and how that lies to the
// errors in v; v is nil, and err set, when those are not known.
func recordChanges(rec *probes.Recorder, doc source.Changes, v *view, err error) {
	changes := slices.DeleteFunc(slices.Clone(doc.Changes), func(c source.Change) bool {
		_, ok := c.At.Get()
		return !ok
	})
	slices.SortStableFunc(changes, func(a, b source.Change) int { return changedAt(b).Compare(changedAt(a)) })
	switch untimed := len(doc.Changes) > 0; {
	case len(changes) > 0:
		age := changes[0].At.Since(doc.Now, "at").Clamp(0, maxAge)
		rec.Set("seconds_since_change", age)
		rec.Set("seconds_since_recent_change", age.MootIf(age.Or(0) > relevant.Seconds(), "the service was not changed in the last 10 minutes"))
	case untimed:
		rec.Lack("no change has a time", changeFacts...)
	default:
		rec.Moot("the service knows of no change", "seconds_since_change", "seconds_since_recent_change", "seconds_change_to_first_new_error")
	}
	if err != nil {
		changeRows(rec, doc.Now, changes)
		rec.Miss(err.Error(), changeFacts...)
		return
	}
	changeRows(rec, doc.Now, suspectFirst(changes, v))
	recordOnset(rec, changes, v)
}

// maxAge is a hundred years in seconds; it keeps a nonsensical date finite.
const maxAge = 100 * 365.25 * 24 * 3600

func changedAt(c source.Change) time.Time {
	t, _ := c.At.Get()
	return t
}

// recordOnset records how the changes, newest first, lie to the first error of
// the largest new kind.
func recordOnset(rec *probes.Recorder, changes []source.Change, v *view) {
	subject := v.largest((*kind).other)
	if _, others := v.fresh((*kind).other); others.Why() != "" {
		rec.Lack(others.Why(), "change_before_new_errors", "change_tied", "change_of_behaviour")
	} else {
		change, found, tied := suspect(changes, subject)
		rec.SetBool("change_before_new_errors", found)
		rec.SetBool("change_tied", tied)
		rec.SetBool("change_of_behaviour", found && ofBehaviour(change.Kind))
	}
	if subject == nil {
		subject = v.largest(func(*kind) bool { return true })
	}
	const fact = "seconds_change_to_first_new_error"
	_, all := v.fresh(func(*kind) bool { return true })
	switch {
	case subject == nil && all.Why() != "":
		rec.Lack(all.Why(), fact)
	case subject == nil:
		rec.Moot("no error is of a new kind", fact)
	case subject.truncated:
		rec.Lack("the service has dropped the first errors of the new kind", fact)
	default:
		change, ok := before(changes, subject.first)
		gap := max(0, subject.first.Sub(changedAt(change)).Seconds())
		rec.Set(fact, probes.Known(gap).MootIf(!ok, "no change came before the first error of the new kind"))
	}
}

// suspect returns the change that came shortly before the errors of a kind: the
// last one that they name or, tied being false, the last one.
func suspect(changes []source.Change, k *kind) (c source.Change, found, tied bool) {
	if k == nil {
		return c, false, false
	}
	for _, earlier := range changes {
		gap := k.first.Sub(changedAt(earlier))
		switch {
		case gap < -slack || gap > relevant:
		case tiedTo(k, earlier):
			return earlier, true, true
		case !found:
			c, found = earlier, true
		}
	}
	return c, found, false
}

// suspectFirst puts the change that the errors name before the others.
func suspectFirst(changes []source.Change, v *view) []source.Change {
	c, _, tied := suspect(changes, v.largest((*kind).other))
	if !tied {
		return changes
	}
	return append([]source.Change{c}, slices.DeleteFunc(slices.Clone(changes), func(d source.Change) bool { return d == c })...)
}

// before returns the last change before t.
func before(changes []source.Change, t time.Time) (source.Change, bool) {
	i := slices.IndexFunc(changes, func(c source.Change) bool { return !changedAt(c).After(t.Add(slack)) })
	if i < 0 {
		return source.Change{}, false
	}
	return changes[i], true
}

// changeRows lists the newest changes, the suspected one first. Who made one is left out: a report is
// not the place to name people.
func changeRows(rec *probes.Recorder, now source.Time, changes []source.Change) {
	for _, c := range changes[:min(len(changes), maxChanges)] {
		note := clip(c.Kind, maxWord)
		if c.From != "" || c.To != "" {
			note += fmt.Sprintf(": %s -> %s", harmless(c.What, c.From), harmless(c.What, c.To))
		}
		rec.Row(probes.Row{
			Table: "changes", Key: clip(c.What, maxValue), Unit: probes.Seconds,
			Value: c.At.Since(now, "at").Clamp(0, maxAge).Or(0), Note: note,
		})
	}
}

// harmless returns a value of the configuration without what may be secret in
// it.
func harmless(what, value string) string {
	for w := range sensitive {
		if len(w) > 3 && strings.Contains(strings.ToLower(what), w) && !strings.HasPrefix(w, "name") && w != "owner" {
			return "<secret>"
		}
	}
	if value == "" {
		return "(none)"
	}
	if strings.Contains(value, "://") {
		u, err := url.Parse(value)
		if err != nil || u.Host == "" {
			return urlMask
		}
		// Paths and queries of hooks are secrets as often as not.
		return clip(u.Scheme+"://"+u.Host, maxValue)
	}
	if strings.ContainsAny(value, "=@") || len(value) >= 16 && tokenLike(value) {
		return anyMask
	}
	return clip(value, maxValue)
}

// tokenLike reports whether a value is one word of letters and digits mixed,
// as tokens and keys are.
func tokenLike(s string) bool {
	return !strings.ContainsFunc(s, unicode.IsSpace) &&
		strings.ContainsFunc(s, unicode.IsDigit) && strings.ContainsFunc(s, unicode.IsLetter)
}
