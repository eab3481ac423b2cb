package slacktest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Message is a message as the fake keeps it.
type Message struct {
	Channel string
	TS      string
	// ThreadTS is the ts of the root for a reply; empty otherwise.
	ThreadTS string
	// Webhook says that it came by the incoming webhook.
	Webhook bool
	// Markup says that Text is read as mrkdwn, as it is unless switched off.
	Markup   bool
	Text     string
	Blocks   json.RawMessage
	Metadata json.RawMessage
	// Edits holds what the message said before, oldest first.
	Edits   []Edit
	Deleted bool
}

// Edit is what a message said until it was edited.
type Edit struct {
	Until  time.Time
	Text   string
	Blocks json.RawMessage
}

// Call is one request the fake saw.
type Call struct {
	// Method is as in Script.
	Method string
	At     time.Time
	// Error is the name of the error that was answered; empty for success.
	// "fault" stands for a scripted one without effect.
	Error string
}

// Messages returns copies of all messages, deleted ones included, in the order
// they were posted.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Message, len(s.messages))
	for i, m := range s.messages {
		out[i] = *m
		out[i].Edits = slices.Clone(m.Edits)
	}
	return out
}

// Roots returns the messages that stand in channels rather than in threads and
// have not been deleted.
func (s *Server) Roots() []Message {
	return slices.DeleteFunc(s.Messages(), func(m Message) bool { return m.ThreadTS != "" || m.Deleted })
}

// Replies returns the messages in the thread of a root.
func (s *Server) Replies(root Message) []Message {
	return slices.DeleteFunc(s.Messages(), func(m Message) bool {
		return m.Channel != root.Channel || m.ThreadTS != root.TS || m.Deleted
	})
}

// Calls returns what was asked of the fake, in order.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count returns how many calls of a method were made.
func (s *Server) Count(method string) int {
	n := 0
	for _, c := range s.Calls() {
		if c.Method == method {
			n++
		}
	}
	return n
}

// Violations returns what was accepted but would have harmed a reader: live
// mentions, links that are not http(s), unescaped text, control characters.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Visible returns what a person reads of the message: the text of its blocks, a
// line each at least, or its text if it has none; entities decoded.
func (m Message) Visible() string {
	var blocks []any
	if json.Unmarshal(m.Blocks, &blocks) != nil || len(blocks) == 0 {
		return unescape(m.Text)
	}
	var lines []string
	for _, b := range blocks {
		walk(b, func(kind, text string) { lines = append(lines, unescape(text)) })
	}
	return strings.Join(lines, "\n")
}

// FirstLine returns the first line of Visible.
func (m Message) FirstLine() string {
	line, _, _ := strings.Cut(m.Visible(), "\n")
	return line
}

func unescape(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

// walk calls f for every text object in v, in order.
func walk(v any, f func(kind, text string)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk(e, f)
		}
	case map[string]any:
		if text, ok := v["text"].(string); ok {
			kind, _ := v["type"].(string)
			f(kind, text)
			return
		}
		for _, key := range []string{"text", "fields", "elements", "accessory", "title"} {
			walk(v[key], f)
		}
	}
}
