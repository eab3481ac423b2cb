package slack

import (
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
)

// message is one Slack message: blocks, and the text that stands for them in
// notifications, for screen readers, and where Slack refuses the blocks.
type message struct {
	blocks []slack.Block
	text   string
	// markup lets Slack read text as mrkdwn: only for text with code blocks of
	// ours, never for a fallback.
	markup bool
}

// maxNote bounds the note of an incident that nothing is run for, in runes.
const maxNote = 1000

// compose writes the message of an incident for a notice. Its first line is the
// headline, in a header block and in the text alike.
func compose(n notify.Notice) message {
	var m builder
	m.header(icon(n) + " " + notify.Headline(n))
	m.recovery(n)
	switch {
	case n.Report != nil:
		m.report(n)
	case n.Note != "":
		m.plain(notify.Line(n.Note, maxNote))
	case n.Phase == notify.Looking:
		m.looking(n)
	case n.Phase == notify.Resolved:
		m.plain("The alert resolved before there was a report.")
	case n.Phase == notify.Reported:
		m.plain("The run left no report.")
	}
	m.footer(n)
	return message{blocks: m.blocks, text: clip(defuse(strings.Join(m.lines, "\n")), maxText-budgetInstead-1)}
}

// instead adds that the message was meant for another channel, and why it is
// not there.
func (m message) instead(why string) message {
	s := "This was meant for another channel: " + why
	m.blocks = append(slices.Clone(m.blocks), slack.NewContextBlock("", plainText(clip(s, budgetInstead))))
	m.text += "\n" + clip(defuse(s), budgetInstead)
	return m
}

// withButtons adds what can be ordered about the report of an incident.
func (m message) withButtons(incident string) message {
	button := func(b Button, label string) *slack.ButtonBlockElement {
		return slack.NewButtonBlockElement(string(b), notify.Truncate(incident, maxValue), plainText(label))
	}
	m.blocks = append(slices.Clone(m.blocks), slack.NewActionBlock("diagnose_buttons",
		button(ButtonAgain, "Run again"), button(ButtonEvidence, "Show evidence"),
		button(ButtonRight, "This is right"), button(ButtonWrong, "This is wrong")))
	return m
}

// icon tells the state at a glance, in a channel's list as well.
func icon(n notify.Notice) string {
	switch {
	case n.Phase == notify.Resolved && n.Recovery != nil && n.Recovery.Outcome == playbooks.RecoveredNo:
		return "🔴"
	case n.Phase == notify.Resolved && n.Recovery != nil && n.Recovery.Outcome == playbooks.RecoveredUnknown:
		return "🟡"
	case n.Phase == notify.Resolved:
		return "✅"
	case n.Note != "":
		return "🔴"
	case n.Report == nil:
		return "🔎"
	case n.Report.Verdict == playbooks.CauseFound:
		return "🔴"
	case n.Report.Verdict == playbooks.Healthy:
		return "🟢"
	}
	return "🟡"
}

// builder gathers blocks and, beside them, the same content as lines of text.
type builder struct {
	blocks []slack.Block
	lines  []string
	head   string // what the header shows, unescaped
}

func (m *builder) header(s string) {
	m.lines = append(m.lines, s)
	m.head = notify.Truncate(s, maxHeader)
	m.blocks = append(m.blocks, slack.NewHeaderBlock(plainText(clip(s, maxHeader))))
}

// plain adds a paragraph without any markup; nothing for an empty one, which
// Slack would refuse.
func (m *builder) plain(s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	m.lines = append(m.lines, s)
	m.blocks = append(m.blocks, slack.NewSectionBlock(plainText(clip(s, budgetSummary)), nil, nil))
}

// context adds a line of small print, and a link if there is one.
func (m *builder) context(s, link string) {
	var elements []slack.MixedElement
	if strings.TrimSpace(s) != "" {
		m.lines = append(m.lines, s)
		elements = append(elements, plainText(clip(s, budgetContext)))
	}
	if link != "" {
		elements = append(elements, slack.NewTextBlockObject(slack.MarkdownType, link, false, true))
	}
	if len(elements) > 0 {
		m.blocks = append(m.blocks, slack.NewContextBlock("", elements...))
	}
}

// section adds a part of the report: instructions as plain text that is easy to
// read and to copy, figures in a code block, where nothing in them can act.
func (m *builder) section(s notify.Section) {
	items := make([]string, len(s.Items))
	for i, item := range s.Items {
		items[i] = item.String()
	}
	m.lines = append(append(m.lines, "", s.Title), items...)
	if s.Title == notify.TitleActions {
		text := clipLines(append([]string{s.Title}, items...), budgetPart)
		m.blocks = append(m.blocks, slack.NewSectionBlock(plainText(text), nil, nil))
		return
	}
	for i := range items {
		items[i] = defuse(items[i])
	}
	text := "*" + s.Title + "*\n" + fence + clipLines(items, budgetPart) + fenceEnd
	m.blocks = append(m.blocks, slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, text, false, true), nil, nil))
}

// recovery says what the second look saw, or that it is still to come.
func (m *builder) recovery(n notify.Notice) {
	lines := notify.RecoveryLines(n.Recovery)
	switch {
	case n.Phase != notify.Resolved, n.Note != "":
	case len(lines) == 0:
		m.plain("Measuring again whether it has recovered.")
	default:
		m.lines = append(m.lines, lines...)
		m.blocks = append(m.blocks, slack.NewSectionBlock(plainText(clipLines(lines, budgetRecovery)), nil, nil))
	}
}

func (m *builder) report(n notify.Notice) {
	r := *n.Report
	m.plain(notify.Summary(r, m.head))
	m.plain(notify.Changed(r))
	for _, s := range notify.Sections(r, notify.Digest) {
		m.section(s)
	}
	m.context(strings.Join(notify.About(r), "\n")+"\nCost of this run: "+notify.CostLine(r.Cost), "")
}

func (m *builder) looking(n notify.Notice) {
	if s := annotation(n.Incident); s != "" {
		m.plain(s)
	}
	if len(n.Checks) > 0 {
		m.plain("Checking: " + notify.Line(strings.Join(n.Checks, ", "), budgetSummary))
	}
	if lines := notify.SoFar(n.Findings); len(lines) > 0 {
		lines = append([]string{"So far:"}, lines...)
		m.lines = append(m.lines, lines...)
		m.blocks = append(m.blocks, slack.NewSectionBlock(plainText(clipLines(lines, budgetPart)), nil, nil))
	}
}

// footer says which incident this is: what a human needs in order to see that
// two messages are about the same one.
func (m *builder) footer(n notify.Notice) {
	in := n.Incident
	parts := []string{"Incident " + notify.Line(in.ID, 80)}
	if in.Severity != "" {
		parts = append(parts, notify.Line(in.Severity, 40))
	}
	if !in.StartedAt.IsZero() {
		parts = append(parts, "since "+notify.Clock(in.StartedAt))
	}
	if len(in.Alerts) > 1 || in.HiddenAlerts > 0 {
		parts = append(parts, notify.CountAlerts(in))
	}
	url := ""
	for _, a := range in.Alerts {
		if url = link("the alert's source", a.GeneratorURL); url != "" {
			break
		}
	}
	m.context(strings.Join(parts, " · "), url)
}

// annotation returns what the first alert that says something says.
func annotation(in playbooks.Incident) string {
	for _, a := range in.Alerts {
		for _, name := range []string{"summary", "description", "message"} {
			if s := notify.Line(a.Annotations[name], budgetSummary); s != "" {
				return s
			}
		}
	}
	return ""
}

// plainText wraps escaped text. Slack decodes entities in plain_text as well,
// but reads no markup there; emoji codes stay as they are.
func plainText(escaped string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, escaped, false, false)
}
