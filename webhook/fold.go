package webhook

import (
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// fate is what one alert of a message means, given what is known.
type fate string

const (
	fateNew      fate = "new"      // fires, and did not before
	fateRepeated fate = "repeated" // nothing new
	fateStale    fate = "stale"    // older than what is known: ignored
	fateResolved fate = "resolved" // fired, and has ended
	fateUnheard  fate = "unheard"  // has ended, and was never heard firing
)

// sighting is what is known of one alert of the open incident.
type sighting struct {
	firing       bool
	starts, ends time.Time
	// kept says that labels and annotations are in the store.
	kept bool
}

// ending is the latest end of an alert, and when that was heard of first.
type ending struct {
	at, heard time.Time
}

// roll is what is known of the alerts of an incident.
type roll struct {
	// named are those that a message is about.
	named map[string]sighting
	// of the others only counts are known: an incident may have thousands.
	others, othersFiring, othersKept int
}

// size is how many alerts are tracked.
func (r *roll) size() int { return len(r.named) + r.others }

// fires reports whether any alert fires.
func (r *roll) fires() bool {
	for _, s := range r.named {
		if s.firing {
			return true
		}
	}
	return r.othersFiring > 0
}

// kept is how many alerts have their labels and annotations in the store.
func (r *roll) kept() int {
	n := r.othersKept
	for _, s := range r.named {
		if s.kept {
			n++
		}
	}
	return n
}

// delta is what a message changes.
type delta struct {
	// fates has one entry for each alert of the message.
	fates []fate
	// touched holds, for each alert whose sighting changed, its index in the
	// message (the last one, where it is in there twice).
	touched map[string]int
	// news says that there is something to work on.
	news bool
	// closes says that the incident is over.
	closes bool
	// untracked counts firing alerts beyond the limit.
	untracked uint64
	// current says that some of the message is about the present episode.
	current bool
}

// fold works out what m changes for an incident of whose alerts known is known,
// and brings that up to date; it is empty when no incident is open. ended holds
// the latest known end of each alert, from any episode; it is brought up to
// date too. At most limit alerts are tracked. It does no I/O.
func fold(m *Message, known *roll, ended map[string]ending, now time.Time, limit int) delta {
	d := delta{fates: make([]fate, len(m.Alerts)), touched: map[string]int{}}
	anyFiring := false
	for i, a := range m.Alerts {
		was, seen := known.named[a.Fingerprint]
		var is sighting
		if a.Firing {
			d.fates[i], is = foldFiring(a, was, ended[a.Fingerprint], now)
		} else {
			d.fates[i], is = foldResolved(a, was, seen, ended[a.Fingerprint])
		}
		if !a.Firing && d.fates[i] != fateStale {
			// An end in the future would make old news of the next episode.
			end := endOf(a)
			if end.After(now) {
				end = now
			}
			if end.After(ended[a.Fingerprint].at) {
				ended[a.Fingerprint] = ending{end, now}
			}
		}
		if d.fates[i] == fateStale {
			continue
		}
		d.current = true
		anyFiring = anyFiring || a.Firing
		switch {
		case !seen && known.size() >= limit:
			if a.Firing {
				d.untracked++
			}
			continue
		case is != was || !seen:
			known.named[a.Fingerprint] = is
			d.touched[a.Fingerprint] = i
		case was.kept:
			d.touched[a.Fingerprint] = i // its annotations may have changed
		}
		if d.fates[i] == fateNew || d.fates[i] == fateResolved {
			d.news = true
		}
	}
	if !d.current || anyFiring {
		return d
	}
	d.closes = m.Reason == reasonAllResolved || m.Hidden == 0 && !known.fires()
	return d
}

// outOfStep is for how long after an end was heard of somebody may still say that the
// alert fires: a peer that has not heard of it, for no longer than an Alertmanager keeps
// what it is not told again, 5 minutes, and a notification of that under way, for no
// longer than a group_interval, 5 minutes as well. An alert that fires after that, if
// since before its end, has not ended: Alertmanager took it for ended while it heard
// nothing of Prometheus.
const outOfStep = 10 * time.Minute

// foldFiring judges a firing alert: s is what is known of it, end its latest end.
func foldFiring(a playbooks.Alert, s sighting, end ending, now time.Time) (fate, sighting) {
	if !end.at.IsZero() && !a.StartsAt.IsZero() && !a.StartsAt.After(end.at) && now.Sub(end.heard) < outOfStep {
		return fateStale, s
	}
	f := fateNew
	if s.firing {
		f = fateRepeated
	}
	// While an alert fires its start can only move back: a later one is another
	// peer's, or a client's that gives none.
	if !s.firing || s.starts.IsZero() || !a.StartsAt.IsZero() && a.StartsAt.Before(s.starts) {
		s.starts = a.StartsAt
	}
	s.firing, s.ends = true, time.Time{}
	return f, s
}

// foldResolved judges a resolved alert: s is what is known of it in the open
// incident, if it was seen, and end its latest end, from any episode.
func foldResolved(a playbooks.Alert, s sighting, seen bool, end ending) (fate, sighting) {
	switch {
	case s.firing && !a.EndsAt.IsZero() && a.EndsAt.Before(s.starts):
		return fateStale, s // the end of the episode before
	case s.firing:
		s.firing, s.ends = false, a.EndsAt
		if !a.StartsAt.IsZero() && a.StartsAt.Before(s.starts) {
			s.starts = a.StartsAt
		}
		return fateResolved, s
	case seen:
		return fateRepeated, s
	case !end.at.IsZero() && !endOf(a).After(end.at):
		return fateStale, s // of an episode that is over
	}
	return fateUnheard, sighting{starts: a.StartsAt, ends: a.EndsAt}
}

// endOf is the time up to which a firing of this resolved alert is old news.
// Without a readable end only the same episode is: a guess by our own clock
// could swallow the next one.
func endOf(a playbooks.Alert) time.Time {
	if a.EndsAt.IsZero() {
		return a.StartsAt
	}
	return a.EndsAt
}
