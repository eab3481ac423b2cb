package slacktest

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
)

// stampForm is what a ts looks like. It is a string: a float has lost digits.
var stampForm = regexp.MustCompile(`^\d{10}\.\d{6}$`)

func (s *Server) authTest(url.Values) reply {
	return reply{fields: map[string]any{"url": "https://fake.slack.com/", "team": "Fake", "team_id": "T0FAKE", "user": "diagnose", "user_id": BotUser, "bot_id": "B0DIAGNOSE"}}
}

// open returns the channel a message may be posted to.
func (s *Server) open(ref string, names bool) (*channel, reply) {
	if ref == "" {
		return nil, failure("invalid_arguments", "[ERROR] missing required field: channel")
	}
	c := s.byName(ref, names)
	switch {
	case c == nil, !c.member:
		return nil, failure("channel_not_found")
	case c.archived:
		return nil, failure("is_archived")
	}
	return c, reply{}
}

func (s *Server) postMessage(form url.Values) reply {
	c, rep := s.open(form.Get("channel"), true)
	if rep.err != "" {
		return rep
	}
	thread := form.Get("thread_ts")
	if thread != "" {
		if !stampForm.MatchString(thread) {
			return failure("invalid_thread_ts", "[ERROR] "+thread+" is not a valid thread_ts")
		}
		root := s.message(c.id, thread)
		if root == nil {
			return failure("thread_not_found")
		}
		if root.ThreadTS != "" { // Slack lets it go astray; nobody means that
			s.violate("thread_ts is the ts of a reply, not of a root")
		}
	}
	meta, rep := metadata(form.Get("metadata"))
	if rep.err != "" {
		return rep
	}
	blocks, rep := s.content(form.Get("text"), json.RawMessage(form.Get("blocks")))
	if rep.err != "" {
		return rep
	}
	if rep := s.pace(c); rep.err != "" {
		return rep
	}
	text, cut := truncate(form.Get("text"))
	m := &Message{Channel: c.id, ThreadTS: thread, Text: text, Blocks: blocks, Metadata: meta, Markup: form.Get("mrkdwn") != "false"}
	s.add(m)
	fields := map[string]any{"channel": c.id, "ts": m.TS, "message": m.view(true)}
	if cut {
		fields["warning"] = "message_truncated"
	}
	return reply{fields: fields}
}

// postEphemeral keeps what one user was told; it is in no channel.
func (s *Server) postEphemeral(form url.Values) reply {
	c, rep := s.open(form.Get("channel"), false)
	if rep.err != "" {
		return rep
	}
	thread := form.Get("thread_ts")
	switch {
	case form.Get("user") == "":
		return failure("invalid_arguments", "[ERROR] missing required field: user")
	case thread != "" && s.message(c.id, thread) == nil:
		return failure("thread_not_found")
	}
	if _, rep := s.content(form.Get("text"), json.RawMessage(form.Get("blocks"))); rep.err != "" {
		return rep
	}
	s.whispers = append(s.whispers, Whisper{Channel: c.id, ThreadTS: thread, User: form.Get("user"), Text: form.Get("text")})
	s.signal()
	return reply{fields: map[string]any{"message_ts": s.stamp()}}
}

func (s *Server) update(form url.Values) reply {
	c, rep := s.open(form.Get("channel"), false) // the ID only
	if rep.err != "" {
		return rep
	}
	m := s.message(c.id, form.Get("ts"))
	switch {
	case m == nil:
		return failure("message_not_found")
	case m.Webhook:
		return failure("cant_update_message")
	case units(form.Get("text")) > maxUpdateText:
		return failure("msg_too_long")
	}
	meta, rep := metadata(form.Get("metadata"))
	if rep.err != "" {
		return rep
	}
	blocks, rep := s.content(form.Get("text"), json.RawMessage(form.Get("blocks")))
	if rep.err != "" {
		return rep
	}
	m.Edits = append(m.Edits, Edit{Until: s.now(), Text: m.Text, Blocks: m.Blocks})
	m.Text, m.Blocks = form.Get("text"), blocks
	if meta != nil {
		m.Metadata = meta
	}
	s.signal()
	return reply{fields: map[string]any{"channel": c.id, "ts": m.TS, "text": m.Text, "message": m.view(true)}}
}

// metadata checks the metadata argument: an object with a type and a flat
// payload, of limited size.
func metadata(s string) (json.RawMessage, reply) {
	if s == "" {
		return nil, reply{}
	}
	var m struct {
		Type    string         `json:"event_type"`
		Payload map[string]any `json:"event_payload"`
	}
	switch {
	case json.Unmarshal([]byte(s), &m) != nil, m.Type == "", m.Payload == nil:
		return nil, failure("invalid_metadata_format")
	case len(s) > maxMetadata:
		return nil, failure("metadata_too_large")
	}
	return json.RawMessage(s), reply{}
}

// history returns the roots of a channel, newest first. It wants the ID.
func (s *Server) history(form url.Values) reply {
	c := s.byName(form.Get("channel"), false)
	if c == nil {
		return failure("channel_not_found")
	}
	if !c.member {
		return failure("not_in_channel")
	}
	var list []*Message
	for _, m := range slices.Backward(s.messages) {
		if m.Channel == c.id && m.ThreadTS == "" && !m.Deleted {
			list = append(list, m)
		}
	}
	return page(form, list)
}

// replies returns a thread, the root first.
func (s *Server) replies(form url.Values) reply {
	c := s.byName(form.Get("channel"), false)
	if c == nil {
		return failure("channel_not_found")
	}
	root := s.message(c.id, form.Get("ts"))
	if root == nil {
		return failure("thread_not_found")
	}
	list := []*Message{root}
	for _, m := range s.messages {
		if m.Channel == c.id && m.ThreadTS == root.TS && !m.Deleted {
			list = append(list, m)
		}
	}
	return page(form, list)
}

// page cuts a list to the bounds, the cursor and the limit of a request.
func page(form url.Values, list []*Message) reply {
	limit, cursor := 100, 0
	if v := form.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 999 {
			return failure("invalid_limit")
		}
		limit = n
	}
	if v := form.Get("cursor"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > len(list) {
			return failure("invalid_cursor")
		}
		cursor = n
	}
	oldest, latest := form.Get("oldest"), form.Get("latest")
	list = slices.DeleteFunc(list, func(m *Message) bool {
		return (oldest != "" && m.TS < oldest) || (latest != "" && m.TS > latest)
	})
	end := min(cursor+limit, len(list))
	cursor = min(cursor, end)
	all := isTrue(form.Get("include_all_metadata"))
	views := make([]map[string]any, 0, end-cursor)
	for _, m := range list[cursor:end] {
		views = append(views, m.view(all))
	}
	next := ""
	if end < len(list) {
		next = strconv.Itoa(end)
	}
	return reply{fields: map[string]any{
		"messages": views, "has_more": next != "", "response_metadata": map[string]any{"next_cursor": next},
	}}
}

func isTrue(s string) bool { return s == "true" || s == "1" }

// view is a message as the API shows it.
func (m *Message) view(withMetadata bool) map[string]any {
	v := map[string]any{"type": "message", "ts": m.TS, "text": m.Text, "user": BotUser}
	if m.ThreadTS != "" {
		v["thread_ts"] = m.ThreadTS
	}
	if m.Blocks != nil {
		v["blocks"] = m.Blocks
	}
	if withMetadata && m.Metadata != nil {
		v["metadata"] = m.Metadata
	}
	return v
}
