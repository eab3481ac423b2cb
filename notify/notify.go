// Package notify delivers what is to be said about an incident to people. The
// sinks live one folder each; what they share (text rendering, classes of
// errors) is here.
package notify

import (
	"context"

	"github.com/regpath/diagnose/playbooks"
)

// Notifier is one sink.
type Notifier interface {
	// Notify says n and returns where, so that the next notice about the same
	// incident can be put in the same place. It makes one attempt, bounded by
	// ctx, apart from a plain-text fallback where the sink refuses the rich
	// form; repeating is the caller's business. A failure is an *Error, whose
	// Class says whether and how to repeat. The receipt counts even beside an
	// error: it says what landed before things went wrong, so the caller keeps
	// it and hands it back as Prior.
	Notify(ctx context.Context, n Notice) (Receipt, error)
}

// Detailer is a Notifier with room for more than the message itself, such as its
// thread.
type Detailer interface {
	Notifier
	// Detail says beside the message of n.Prior what did not fit into it, and
	// brings to date what it said there before, which n.Prior.Detail lists. It is
	// otherwise like Notify.
	Detail(ctx context.Context, n Notice) (Receipt, error)
}

// All says n with its details, where the sink has room for them and there is a
// report.
func All(ctx context.Context, s Notifier, n Notice) (Receipt, error) {
	at, err := s.Notify(ctx, n)
	d, ok := s.(Detailer)
	if err != nil || !ok || n.Report == nil {
		return at, err
	}
	n.Prior = at
	return d.Detail(ctx, n)
}

// Notice is one thing to say about an incident.
type Notice struct {
	Incident playbooks.Incident
	Phase    Phase
	// Report is nil while Phase is Looking, or when the incident was resolved
	// before a report was made.
	Report *playbooks.Report
	// Checks names the steps about to run, in the playbook's order, for a
	// human. It is used while Phase is Looking and may be empty.
	Checks []string
	// Findings are what the steps have found so far, in the playbook's order. It is
	// used while Phase is Looking and may be empty.
	Findings []playbooks.Finding
	// Recovery is the outcome of the second look after the alert has resolved; nil
	// while Phase is Resolved means that it is still to come.
	Recovery *playbooks.Recovery
	// Note is what there is to say about an incident that nothing is run for:
	// there is no report, and nothing is measured again. It may be empty.
	Note string
	// Prior is where the incident was last spoken of on this sink; zero if never.
	Prior Receipt
	// Uncertain says that an earlier attempt may have got through although no
	// receipt was kept: a sink that can, looks for the message by the
	// incident's id before it posts a new one.
	Uncertain bool
}

// Phase is how far the incident has come.
type Phase int

// The phases, in order.
const (
	Looking  Phase = iota // the run has begun
	Reported              // the report is there
	Resolved              // the alert has resolved
)

// Receipt is where a notice landed. Sinks without addressable messages return
// only Sink.
type Receipt struct {
	Sink    string `json:"sink"`
	Channel string `json:"channel,omitempty"`
	// Message identifies the message within the channel (Slack: its ts).
	Message string `json:"message,omitempty"`
	// Detail identifies the detail message in the thread, once there is one;
	// where it took several messages, all of them, in the sink's own notation.
	Detail string `json:"detail,omitempty"`
	// Instead says why the message is not where it was meant to be, where the
	// sink has a place to fall back on; empty when it is. An operator should know.
	Instead string `json:"instead,omitempty"`
}
