package notify

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// TextOptions says how plain text is laid out.
type TextOptions struct {
	// Width is the number of columns lines are wrapped at; 0 means 100, and
	// less than 40 is taken as 40.
	Width int
	// Color allows ANSI colours. They are ours: none from outside gets through.
	Color bool
	// Detail says how much is shown.
	Detail Detail
}

// Text writes a report as a person reads it in a terminal. The first line names
// the cause, or says "Healthy" or "Cannot tell". The same report and options
// give the same bytes. An error is w's.
func Text(w io.Writer, r playbooks.Report, o TextOptions) error {
	p := newPage(o)
	headline := Conclusion(r)
	p.line(p.bold(headline, verdictColor(r.Verdict)))
	if s := Summary(r, headline); s != "" {
		p.text("", s, none)
	}
	if s := Changed(r); s != "" {
		p.text("", s, yellow)
	}
	for _, s := range About(r) {
		p.text("", s, faint)
	}
	for _, s := range Sections(r, o.Detail) {
		p.section(s)
	}
	p.line("")
	p.text("", "Cost of this run: "+CostLine(r.Cost), faint)
	return p.to(w)
}

// Summary returns a report's summary as one harmless line, without what the
// headline over it says already: the first sentence, or the cause's title before
// a colon.
func Summary(r playbooks.Report, headline string) string {
	s := Line(r.Summary, textRunes)
	if first := firstSentence(s); strings.Contains(headline, first) || strings.Contains(headline, lowerFirst(first)) {
		return strings.TrimLeft(s[len(first):], ". ")
	}
	if title, rest, ok := strings.Cut(s, ": "); ok && title != "" && strings.Contains(headline, title) {
		return upperFirst(rest)
	}
	return s
}

// About says in a few harmless lines what a report is about: playbook and
// target, trigger, run.
func About(r playbooks.Report) []string {
	what := "Playbook " + orElse(Line(r.Playbook, keyRunes), "(none)")
	if t := Line(r.Target, keyRunes); t != "" {
		what += " on " + t
	}
	lines := []string{what}
	t := r.Trigger
	if title := Line(t.Title, titleRunes); title != "" || t.Kind != "" {
		s := "Asked by " + orElse(Line(t.Kind, keyRunes), "nobody known")
		if t.Kind == "manual" {
			s = "Asked by hand"
		}
		if title != "" {
			s += ": " + title
		}
		if sev := Line(t.Severity, keyRunes); sev != "" {
			s += " [" + sev + "]"
		}
		if !t.StartedAt.IsZero() {
			s += ", since " + Clock(t.StartedAt)
		}
		lines = append(lines, s)
	}
	run := "Run " + orElse(Line(r.ID, keyRunes), "(no id)")
	if !r.StartedAt.IsZero() {
		run += ", " + Clock(r.StartedAt)
	}
	return append(lines, run+", took "+Duration(time.Duration(r.DurationMS)*time.Millisecond))
}

// CountAlerts says how many alerts an incident has, and how many more the sender
// did not show.
func CountAlerts(in playbooks.Incident) string {
	s := Count(len(in.Alerts), "alert")
	if in.HiddenAlerts > 0 {
		s += fmt.Sprintf(" (and %s more that the sender cut off)", Value(float64(in.HiddenAlerts), probes.Count))
	}
	return s
}

// IncidentText writes the alerts of an incident with all their labels and
// annotations, however long these are.
func IncidentText(w io.Writer, in playbooks.Incident, o TextOptions) error {
	p := newPage(o)
	title := CountAlerts(in)
	p.line(p.bold(title, none))
	for _, a := range in.Alerts {
		state := "resolved"
		if a.Firing {
			state = "firing"
		}
		head := state + " " + orElse(Line(a.Labels["alertname"], titleRunes), "unnamed alert")
		if !a.StartsAt.IsZero() {
			head += ", since " + Clock(a.StartsAt)
		}
		if !a.EndsAt.IsZero() {
			head += ", until " + Clock(a.EndsAt)
		}
		p.text("  ", head, none)
		p.pairs("label", a.Labels)
		p.pairs("annotation", a.Annotations)
		if u := Line(a.GeneratorURL, unbounded); u != "" {
			p.text("      ", "from "+u, none)
		}
	}
	return p.to(w)
}

// unbounded is for text that is split into pages rather than cut: it only
// guards the arithmetic.
const unbounded = 1 << 24

// page gathers lines.
type page struct {
	buf   bytes.Buffer
	width int
	color bool
}

func newPage(o TextOptions) *page {
	if o.Width == 0 {
		o.Width = 100
	}
	return &page{width: max(o.Width, 40), color: o.Color}
}

func (p *page) to(w io.Writer) error {
	if _, err := w.Write(p.buf.Bytes()); err != nil {
		return fmt.Errorf("write text: %w", err)
	}
	return nil
}

func (p *page) line(s string) {
	p.buf.WriteString(s)
	p.buf.WriteByte('\n')
}

// text writes s wrapped, every line of it behind indent, which is of spaces.
func (p *page) text(indent, s, color string) {
	for _, l := range wrap(s, p.width-len(indent)) {
		p.line(indent + p.paint(l, color))
	}
}

func (p *page) section(s Section) {
	p.line("")
	p.line(p.bold(s.Title, none))
	for _, i := range s.Items {
		indent := strings.Repeat("  ", i.Depth+1)
		first, hang := indent, indent+"  "
		if i.Mark != "" {
			first += p.paint(i.Mark, statusColor(i.Status)) + " "
			hang = strings.Repeat(" ", cells(indent+i.Mark+" "))
		}
		for n, l := range wrap(i.Text, p.width-len(hang)) {
			if n > 0 {
				first = hang
			}
			p.line(first + l)
		}
	}
}

func (p *page) pairs(kind string, m map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value := Line(m[name], unbounded)
		if value == "" {
			continue
		}
		p.text("      ", kind+" "+Line(name, keyRunes)+": "+value, none)
	}
}

// The colours in use, as ANSI parameters.
const (
	none   = ""
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
)

func (p *page) paint(s, color string) string {
	if !p.color || color == none {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func (p *page) bold(s, color string) string {
	if color == none {
		return p.paint(s, "1")
	}
	return p.paint(s, "1;"+color)
}

func statusColor(s playbooks.Status) string {
	switch s {
	case playbooks.OK:
		return green
	case playbooks.Warning:
		return yellow
	case playbooks.Critical:
		return red
	case playbooks.Unknown:
	}
	return none
}

func verdictColor(v playbooks.Verdict) string {
	switch v {
	case playbooks.CauseFound:
		return red
	case playbooks.Healthy:
		return green
	case playbooks.Inconclusive:
		return yellow
	}
	return none
}
