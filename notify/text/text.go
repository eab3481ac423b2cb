// Package text is the sink for a terminal or a file: it writes notices to an
// io.Writer, one after the other.
package text

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
)

// Name is what the sink's receipts call it.
const Name = "text"

// Sink writes notices to a writer. It is safe for concurrent use: a notice is
// written with one Write call, so notices never mix.
type Sink struct {
	mu sync.Mutex
	w  io.Writer
	o  notify.TextOptions
}

var _ notify.Notifier = (*Sink)(nil)

// New returns a sink that writes to w.
func New(w io.Writer, o notify.TextOptions) *Sink { return &Sink{w: w, o: o} }

// Notify implements notify.Notifier. A terminal cannot be edited: every notice
// is written anew, the report in full once, and its resolution in one line, with
// what the second look saw.
// A failed write is of unknown outcome, as part of it may be on paper.
func (s *Sink) Notify(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	at := notify.Receipt{Sink: Name}
	if err := ctx.Err(); err != nil {
		return at, &notify.Error{Class: notify.Retry, Err: err}
	}
	var b bytes.Buffer
	if err := render(&b, n, s.o); err != nil {
		return at, &notify.Error{Class: notify.Payload, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return at, &notify.Error{Class: notify.Unknown, Err: fmt.Errorf("write notice: %w", err)}
	}
	return at, nil
}

func render(w io.Writer, n notify.Notice, o notify.TextOptions) error {
	if n.Phase == notify.Reported && n.Report != nil {
		return notify.Text(w, *n.Report, o)
	}
	line := notify.Headline(n)
	if n.Note != "" {
		line += ": " + notify.Line(n.Note, 1000)
	}
	if n.Phase == notify.Looking {
		line += after(": ", strings.Join(n.Checks, ", ")) + about(n.Incident)
	}
	_, err := fmt.Fprintln(w, strings.Join(append([]string{line}, notify.RecoveryLines(n.Recovery)...), "\n  "))
	return err
}

// about names the severity and the number of alerts of an incident.
func about(in playbooks.Incident) string {
	s := after(" [", notify.Line(in.Severity, 40))
	if s != "" {
		s += "]"
	}
	if len(in.Alerts) > 1 || in.HiddenAlerts > 0 {
		s += ", " + notify.CountAlerts(in)
	}
	return s
}

func after(prefix, s string) string {
	if s = notify.Line(s, 400); s == "" {
		return ""
	}
	return prefix + s
}
