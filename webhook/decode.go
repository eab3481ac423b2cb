package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/regpath/diagnose/playbooks"
)

// DecodeError says why a body can never be understood. Its text holds no more
// of the body than one quoted character or version.
type DecodeError struct {
	// Reason is one of a few fixed words, fit for a metric: "empty", "encoding",
	// "syntax", "not-alertmanager", "version".
	Reason string
	// What says what is wrong, where, and what was expected.
	What string
}

// Error implements error.
func (e *DecodeError) Error() string { return e.What }

// Decode reads one Alertmanager notification of version "4" (or without a
// version, or Grafana's look-alike, which calls itself "1" and carries orgId).
//
// It is lenient within the message: unknown keys are skipped, null maps are
// empty, numbers and truth values where text belongs become text, and a field
// that cannot be read is left empty and named in Message.Spoilt. It is strict
// about the message: what is not exactly one such JSON object in UTF-8 is a
// *DecodeError.
func Decode(body []byte) (Message, error) {
	if err := checkEncoding(body); err != nil {
		return Message{}, err
	}
	if c := bytes.TrimLeft(body, " \t\r\n")[0]; c == '[' {
		return Message{}, &DecodeError{"not-alertmanager", "the body is a JSON array: want one Alertmanager message, an object"}
	}
	var w wireMessage
	if err := json.Unmarshal(body, &w); err != nil {
		if e, ok := errors.AsType[*DecodeError](err); ok {
			return Message{}, e
		}
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			return Message{}, &DecodeError{"syntax", fmt.Sprintf("not one JSON document: at byte %d of %d: %v", e.Offset, len(body), e)}
		}
		return Message{}, &DecodeError{"not-alertmanager", "the body is JSON, but not an object: want one Alertmanager message"}
	}
	if !w.Alerts.present {
		return Message{}, &DecodeError{"not-alertmanager", `the object has no "alerts": want an Alertmanager message`}
	}
	switch v := w.Version; {
	case v.bad:
		return Message{}, &DecodeError{"version", `"version" is not text: want "4"`}
	case v.s == "4", v.s == "":
	case v.s == "1" && len(w.OrgID) > 0: // Grafana
	default:
		return Message{}, &DecodeError{"version", fmt.Sprintf(`"version" is %s: want "4"`, loggable(v.s, 20))}
	}
	m := w.message()
	if m.unnamed() && slices.Contains(fingerprints(&m), fingerprint(nil)) {
		return Message{}, &DecodeError{"not-alertmanager", `an alert has no "labels" and the message neither "groupKey" nor "groupLabels": want one of these, as nothing tells it from others`}
	}
	return m, nil
}

// checkEncoding refuses what is not plain UTF-8.
func checkEncoding(b []byte) error {
	switch {
	case len(bytes.TrimLeft(b, " \t\r\n")) == 0:
		return &DecodeError{"empty", "the body is empty: want one Alertmanager message"}
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		return &DecodeError{"encoding", "the body is compressed with gzip: want plain JSON"}
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}), bytes.HasPrefix(b, []byte{0xff, 0xfe}),
		len(b) > 1 && (b[0] == 0) != (b[1] == 0):
		return &DecodeError{"encoding", "the body is UTF-16: want UTF-8"}
	case bytes.HasPrefix(b, []byte{0xef, 0xbb, 0xbf}):
		return &DecodeError{"encoding", "the body begins with a byte order mark: want plain UTF-8"}
	case !utf8.Valid(b):
		return &DecodeError{"encoding", fmt.Sprintf("the body is not UTF-8: at byte %d", invalidAt(b)+1)}
	}
	return nil
}

// invalidAt returns the offset of the first byte that is not UTF-8.
func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// message turns what was on the wire into a Message.
func (w *wireMessage) message() Message {
	m := Message{
		GroupKey:          w.GroupKey.s,
		Receiver:          w.Receiver.s,
		GroupLabels:       w.GroupLabels.m,
		CommonLabels:      w.CommonLabels.m,
		CommonAnnotations: w.CommonAnnotations.m,
		Reason:            w.Reason.s,
		Hidden:            w.Truncated.n,
	}
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"groupKey", w.GroupKey.bad},
		{"receiver", w.Receiver.bad},
		{"groupLabels", w.GroupLabels.bad},
		{"commonLabels", w.CommonLabels.bad},
		{"commonAnnotations", w.CommonAnnotations.bad},
		{"notification_reason", w.Reason.bad},
		{"truncatedAlerts", w.Truncated.bad},
	} {
		if f.bad {
			m.spoil(f.name)
		}
	}
	for i := range w.Alerts.list {
		m.add(i, &w.Alerts.list[i])
	}
	return m
}

// add appends the alert with index i.
func (m *Message) add(i int, w *wireAlert) {
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"status", w.Status.bad},
		{"labels", w.Labels.bad},
		{"annotations", w.Annotations.bad},
		{"startsAt", w.StartsAt.bad},
		{"endsAt", w.EndsAt.bad},
		{"generatorURL", w.GeneratorURL.bad},
		{"fingerprint", w.Fingerprint.bad},
	} {
		if f.bad {
			m.spoil(fmt.Sprintf("alerts[%d].%s", i, f.name))
		}
	}
	a := playbooks.Alert{
		Fingerprint:  w.Fingerprint.s,
		Labels:       w.Labels.m,
		Annotations:  w.Annotations.m,
		StartsAt:     w.StartsAt.t,
		GeneratorURL: w.GeneratorURL.s,
	}
	switch strings.ToLower(strings.TrimSpace(w.Status.s)) {
	case "firing":
		a.Firing = true
	case "resolved":
		a.EndsAt = w.EndsAt.t
	case "":
		// Not said or not readable: an alert without an end has not ended.
		a.Firing = w.EndsAt.t.IsZero()
		a.EndsAt = w.EndsAt.t
	default:
		m.Unknown++
		m.spoil(fmt.Sprintf("alerts[%d].status", i))
		return
	}
	if a.Fingerprint == "" || len(a.Fingerprint) > 64 || strings.ContainsRune(a.Fingerprint, 0) {
		a.Fingerprint = fingerprint(a.Labels)
	}
	m.Alerts = append(m.Alerts, a)
}
