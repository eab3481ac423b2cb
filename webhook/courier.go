package webhook

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/regpath/diagnose/playbooks"
)

// Courier carries what there is to say about incidents to one place, such as a
// channel. Every courier has a queue and workers of its own, so that one whose
// place is slow or dead delays neither the work nor another courier.
type Courier interface {
	// Carry brings the place up to date with the incident as it stands now. It is
	// called whenever there is news for it, the opening of an incident included (see
	// Options.Audience), and after Memo.Put has named it; several of these that come
	// together, or while Carry runs, lead to one call. Calls for one incident and
	// courier never overlap; they do overlap with Work and with other couriers.
	//
	// An error means "again later", as it does for Work. One wrapped by
	// Undeliverable means that repeating is useless: the next call is made when
	// there is news or the process is restarted.
	Carry(ctx context.Context, in playbooks.Incident, memo Memo) error
}

// Undeliverable wraps an error that Carry returns: what was to be said is kept
// and listed as undelivered, but not tried again until something changes.
func Undeliverable(err error) error { return &undeliverableError{err} }

type undeliverableError struct{ error }

func (e *undeliverableError) Unwrap() error { return e.error }

// courierWorkers is how many incidents one courier carries at a time: more than
// one, so that a call that hangs does not hold up all others.
const courierWorkers = 8

// courierName is what the name of a courier must look like: it is part of the
// name of its queue.
var courierName = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// maxCourierName is in bytes; River's own limit for the queue is 64.
const maxCourierName = 48

// ValidCourierName says what is wrong with a name; nil if nothing is.
func ValidCourierName(name string) error {
	if len(name) > maxCourierName || !courierName.MatchString(name) {
		return fmt.Errorf("want at most %d lower-case letters, digits, single dashes and underscores between them", maxCourierName)
	}
	return nil
}

// queueOf is the queue of a courier.
func queueOf(courier string) string { return "courier-" + courier }

// couriers lists the names of all couriers.
func (in *Inbox) couriers() []string {
	return slices.Sorted(maps.Keys(in.all))
}

// callers lists those that news is for.
func (in *Inbox) callers() []string {
	return slices.Sorted(maps.Keys(in.opts.Couriers))
}
