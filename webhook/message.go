package webhook

import "github.com/regpath/diagnose/playbooks"

// Message is an Alertmanager notification, decoded. All strings are untrusted.
type Message struct {
	// GroupKey is opaque; empty when the sender has none.
	GroupKey string
	// Receiver is as sent: Alertmanager quotes it as a regular expression.
	Receiver          string
	GroupLabels       map[string]string
	CommonLabels      map[string]string
	CommonAnnotations map[string]string
	// Reason is why it was sent; empty before Alertmanager 0.32.
	Reason string
	// Hidden counts the alerts that the sender cut off (truncatedAlerts).
	Hidden uint64
	// Alerts have a fingerprint each, computed where the sender gave none.
	Alerts []playbooks.Alert
	// Unknown counts the alerts left out because their status is neither firing
	// nor resolved, or because they are no objects.
	Unknown int
	// Spoilt names the fields that could not be read and were left empty, as
	// "alerts[3].startsAt"; at most maxSpoilt of them.
	Spoilt []string

	// pipe says that it is the watchdog's own message about the pipe.
	pipe bool
}

// reasonAllResolved is the only proof that a group with hidden alerts is over.
const reasonAllResolved = "all alerts resolved"

// maxSpoilt bounds Message.Spoilt.
const maxSpoilt = 16

// spoil notes a field that could not be read.
func (m *Message) spoil(field string) {
	if len(m.Spoilt) < maxSpoilt {
		m.Spoilt = append(m.Spoilt, field)
	}
}
