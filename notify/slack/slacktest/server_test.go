package slacktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/regpath/diagnose/notify/slack/slacktest"
)

// client calls the fake as anybody would, without the code of ours it is made
// to test.
type client struct {
	t     *testing.T
	s     *slacktest.Server
	token string
}

type answer struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
	Warning  string `json:"warning"`
	Channel  string `json:"channel"`
	TS       string `json:"ts"`
	HasMore  bool   `json:"has_more"`
	Messages []struct {
		TS       string          `json:"ts"`
		Metadata json.RawMessage `json:"metadata"`
	} `json:"messages"`
	Meta struct {
		Cursor string `json:"next_cursor"`
	} `json:"response_metadata"`
}

func newClient(t *testing.T) client {
	t.Helper()
	return client{t, slacktest.Start(t), slacktest.Token}
}

func (c client) call(method string, kv ...string) answer {
	c.t.Helper()
	form := url.Values{"channel": {slacktest.ChannelID}}
	for i := 0; i < len(kv); i += 2 {
		form.Set(kv[i], kv[i+1])
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.s.APIURL()+method, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		c.t.Fatal(err)
	}
	return a
}

// wants makes a call and checks the name of the error.
func (c client) wants(want, method string, kv ...string) answer {
	c.t.Helper()
	a := c.call(method, kv...)
	if a.Error != want || a.OK != (want == "") {
		c.t.Errorf("%s %.80q: ok %v, error %q; want %q", method, kv, a.OK, a.Error, want)
	}
	return a
}

func TestPostMessage(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	a := c.wants("", "chat.postMessage", "text", "one")
	b := c.wants("", "chat.postMessage", "text", "two", "channel", "#"+slacktest.ChannelName)
	if a.TS >= b.TS || len(a.TS) != len("1700000000.000000") || b.Channel != slacktest.ChannelID {
		t.Errorf("ts %q then %q in %q, want them unique, growing, with six digits, in the ID's channel", a.TS, b.TS, b.Channel)
	}
	c.wants("no_text", "chat.postMessage")
	c.wants("channel_not_found", "chat.postMessage", "text", "x", "channel", "C404")
	c.wants("invalid_arguments", "chat.postMessage", "text", "x", "channel", "")
	c.wants("thread_not_found", "chat.postMessage", "text", "x", "thread_ts", "1700000000.000001")
	c.wants("invalid_thread_ts", "chat.postMessage", "text", "x", "thread_ts", a.TS[:14])
	c.wants("invalid_metadata_format", "chat.postMessage", "text", "x", "metadata", `{"event_type":"x"}`)
	c.wants("metadata_too_large", "chat.postMessage", "text", "x", "metadata", `{"event_type":"x","event_payload":{"a":"`+strings.Repeat("x", 8000)+`"}}`)
	c.wants("unknown_method", "chat.poke")
	if got := c.wants("", "chat.postMessage", "text", strings.Repeat("x", 40000)); got.Warning != "" {
		t.Errorf("warning %q at 40,000 characters", got.Warning)
	}
	if got := c.wants("", "chat.postMessage", "text", strings.Repeat("x", 40001)); got.Warning != "message_truncated" {
		t.Errorf("warning %q beyond 40,000 characters", got.Warning)
	}
	reply := c.wants("", "chat.postMessage", "text", "re", "thread_ts", a.TS)
	c.wants("", "chat.postMessage", "text", "re re", "thread_ts", reply.TS)
	if v := c.s.Violations(); len(v) != 1 || !strings.Contains(v[0], "thread_ts") {
		t.Errorf("violations %q, want one about the thread", v)
	}
	c.s.AddChannel("C0ARCHIVE", "old", true)
	c.s.Archive("C0ARCHIVE")
	c.wants("is_archived", "chat.postMessage", "text", "x", "channel", "C0ARCHIVE")
	c.s.AddChannel("C0PRIVATE", "private", false)
	c.wants("channel_not_found", "chat.postMessage", "text", "x", "channel", "C0PRIVATE")
	c.token = ""
	c.wants("not_authed", "chat.postMessage", "text", "x")
	c.wants("", "auth.test", "token", slacktest.Token)
	c.token = "xoxb-wrong"
	c.wants("invalid_auth", "chat.postMessage", "text", "x")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const meta = `{"event_type":"e","event_payload":{"k":"v"}}`
	const blocks = `[{"type":"divider"}]`
	a := c.wants("", "chat.postMessage", "text", "one", "metadata", meta, "blocks", blocks)
	c.wants("", "chat.update", "ts", a.TS, "text", strings.Repeat("x", 4000))
	c.wants("msg_too_long", "chat.update", "ts", a.TS, "text", strings.Repeat("x", 4001))
	c.wants("message_not_found", "chat.update", "ts", "1700000000.000001", "text", "x")
	c.wants("channel_not_found", "chat.update", "ts", a.TS, "text", "x", "channel", slacktest.ChannelName)
	c.wants("no_text", "chat.update", "ts", a.TS)
	m := c.s.Messages()[0]
	if len(m.Edits) != 1 || m.Edits[0].Text != "one" || string(m.Edits[0].Blocks) != blocks || m.Blocks != nil || string(m.Metadata) != meta {
		t.Errorf("message %+v, want one edit that dropped the blocks and kept the metadata", m)
	}
	c.s.Delete(a.Channel, a.TS)
	c.wants("message_not_found", "chat.update", "ts", a.TS, "text", "x")
}

func TestHistoryAndReplies(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	var roots []string
	for range 5 {
		roots = append([]string{c.wants("", "chat.postMessage", "text", "x", "metadata", `{"event_type":"e","event_payload":{}}`).TS}, roots...)
	}
	reply := c.wants("", "chat.postMessage", "text", "re", "thread_ts", roots[2]).TS
	var got []string
	cursor := ""
	for {
		a := c.wants("", "conversations.history", "limit", "2", "cursor", cursor, "include_all_metadata", "true")
		for _, m := range a.Messages {
			got = append(got, m.TS)
			if m.Metadata == nil {
				t.Error("no metadata, although asked for")
			}
		}
		if cursor = a.Meta.Cursor; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, roots) {
		t.Errorf("history %q, want %q", got, roots)
	}
	if a := c.wants("", "conversations.history", "oldest", roots[1]); len(a.Messages) != 2 || a.Messages[0].Metadata != nil {
		t.Errorf("%d messages from the second newest on, want 2, without metadata", len(a.Messages))
	}
	if a := c.wants("", "conversations.replies", "ts", roots[2]); len(a.Messages) != 2 || a.Messages[0].TS != roots[2] || a.Messages[1].TS != reply {
		t.Errorf("replies %+v, want the root and the reply", a.Messages)
	}
	c.wants("thread_not_found", "conversations.replies", "ts", "1700000000.000001")
	c.wants("channel_not_found", "conversations.history", "channel", slacktest.ChannelName) // names will not do here
	c.wants("channel_not_found", "conversations.replies", "channel", "C404", "ts", roots[2])
	c.wants("invalid_limit", "conversations.history", "limit", "1000")
	c.wants("invalid_cursor", "conversations.history", "cursor", "x")
	c.s.AddChannel("C0OTHER", "other", false)
	c.wants("not_in_channel", "conversations.history", "channel", "C0OTHER")
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	f := func(method, target, body string, status int, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != status || string(b) != want {
			t.Errorf("%s %.60q: %d %s, want %d %s", method, body, resp.StatusCode, b, status, want)
		}
	}
	u := c.s.WebhookURL()
	f("POST", u, `{"text":"x"}`, 200, "ok")
	f("POST", u, `{"text":""}`, 400, "no_text")
	f("POST", u, `{`, 400, "invalid_payload")
	f("POST", u, `{"text":"x","blocks":[{"type":"x"}]}`, 400, "invalid_blocks")
	f("POST", u+"x", `{"text":"x"}`, 404, "no_service")
	f("GET", u, "", 405, "method_not_allowed")
	if m := c.s.Messages(); len(m) != 1 || !m[0].Webhook {
		t.Errorf("messages %+v, want one", m)
	}
	c.wants("cant_update_message", "chat.update", "ts", c.s.Messages()[0].TS, "text", "x")
	c.s.Limit(time.Hour)
	f("POST", u, `{"text":"x"}`, 429, "ratelimited")
	c.s.Archive(slacktest.ChannelID)
	f("POST", u, `{"text":"x"}`, 410, "channel_is_archived")
}

func TestLimit(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.s.AddChannel("C0OTHER", "other", true)
	c.s.Limit(time.Hour)
	c.wants("", "chat.postMessage", "text", "x")
	c.wants("ratelimited", "chat.postMessage", "text", "x")
	c.wants("", "chat.postMessage", "text", "x", "channel", "C0OTHER") // each channel for itself
	if got := c.s.Count("chat.postMessage"); got != 3 {
		t.Errorf("%d calls counted, want 3", got)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	f := func(fault slacktest.Fault, stored bool, wantErr error) {
		t.Helper()
		before := len(c.s.Messages())
		c.s.Script("chat.postMessage", fault)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.APIURL()+"chat.postMessage", strings.NewReader(url.Values{"token": {slacktest.Token}, "channel": {slacktest.ChannelID}, "text": {"x"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := (&http.Client{}).Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, wantErr) {
			t.Errorf("%+v: error %v, want %v", fault, err, wantErr)
		}
		if got := len(c.s.Messages()) > before; got != stored {
			t.Errorf("%+v: stored %v, want %v", fault, got, stored)
		}
	}
	f(slacktest.CutBefore(), false, io.EOF)
	f(slacktest.CutAfter(), true, io.EOF)
	f(slacktest.HangBefore(), false, context.DeadlineExceeded)
	f(slacktest.HangAfter(), true, context.DeadlineExceeded)
	f(slacktest.HTML(), false, nil)
	f(slacktest.Status(500, ""), false, nil)
	c.wants("", "chat.postMessage", "text", "x") // the script is over
}

// TestHaunt: what is scripted comes first, the rest is left to chance.
func TestHaunt(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	var asked []string
	c.s.Haunt(func(method string) (slacktest.Fault, bool) {
		asked = append(asked, method)
		return slacktest.Fail("fatal_error"), len(asked)%2 == 1
	})
	c.s.Script("chat.postMessage", slacktest.Fail("not_in_channel"))
	for _, want := range []string{"not_in_channel", "fatal_error", "", "fatal_error"} {
		c.wants(want, "chat.postMessage", "text", "x")
	}
	if len(asked) != 3 || asked[0] != "chat.postMessage" {
		t.Errorf("asked about %q, want three posts", asked)
	}
}

func TestJSONArguments(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for body, want := range map[string]string{
		`{"channel":"` + slacktest.ChannelID + `","text":"x","blocks":[{"type":"divider"}]}`: `"ok":true`,
		`[`: "invalid_json",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.s.APIURL()+"chat.postMessage", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+slacktest.Token)
		resp, err := (&http.Client{}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s, %v; want %s", body, b, err, want)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	m := slacktest.Message{
		Text:   "fallback",
		Blocks: json.RawMessage(`[{"type":"header","text":{"type":"plain_text","text":"Head &amp; shoulders"}},{"type":"context","elements":[{"type":"mrkdwn","text":"small"}]},{"type":"section","fields":[{"type":"mrkdwn","text":"f"}]}]`),
	}
	if got, want := m.Visible(), "Head & shoulders\nsmall\nf"; got != want {
		t.Errorf("Visible() = %q, want %q", got, want)
	}
	if got := m.FirstLine(); got != "Head & shoulders" {
		t.Errorf("FirstLine() = %q", got)
	}
	if got := (slacktest.Message{Text: "a &lt; b\nc"}).FirstLine(); got != "a < b" {
		t.Errorf("FirstLine() of text = %q", got)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	ch := c.s.Changed()
	c.wants("", "chat.postMessage", "text", "x")
	select {
	case <-ch:
	case <-time.After(5 * time.Second):
		t.Error("nobody was told of the message")
	}
}

// The best-known client of Slack's must find the fake good enough.
func TestSlackGo(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	api := slackgo.New(slacktest.Token, slackgo.OptionAPIURL(s.APIURL()))
	ctx := t.Context()
	if _, err := api.AuthTestContext(ctx); err != nil {
		t.Fatalf("auth.test: %v", err)
	}
	header := slackgo.NewHeaderBlock(slackgo.NewTextBlockObject(slackgo.PlainTextType, "hello", false, false))
	channel, ts, err := api.PostMessageContext(ctx, slacktest.ChannelName, slackgo.MsgOptionText("hello", true), slackgo.MsgOptionBlocks(header),
		slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: "e", EventPayload: map[string]any{"k": "v"}}))
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	if _, _, err = api.PostMessageContext(ctx, channel, slackgo.MsgOptionText("reply", true), slackgo.MsgOptionTS(ts)); err != nil {
		t.Fatalf("reply: %v", err)
	}
	if _, _, _, err = api.UpdateMessageContext(ctx, channel, ts, slackgo.MsgOptionText("edited", true)); err != nil {
		t.Fatalf("update: %v", err)
	}
	h, err := api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{ChannelID: channel, IncludeAllMetadata: true})
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Text != "edited" || h.Messages[0].Metadata.EventPayload["k"] != "v" {
		t.Fatalf("history: %+v, %v", h, err)
	}
	replies, _, _, err := api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{ChannelID: channel, Timestamp: ts})
	if err != nil || len(replies) != 2 {
		t.Fatalf("replies: %+v, %v", replies, err)
	}
	_, _, err = api.PostMessageContext(ctx, channel, slackgo.MsgOptionText("x", true), slackgo.MsgOptionBlocks(
		slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.MarkdownType, strings.Repeat("x", 3001), false, false), nil, nil)))
	if refused, ok := errors.AsType[slackgo.SlackErrorResponse](err); !ok || refused.Err != "invalid_blocks" || len(refused.ResponseMetadata.Messages) == 0 {
		t.Errorf("3,001 characters: %v, want invalid_blocks with the place", err)
	}
}
