package slacktest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func plain(s string) map[string]any  { return map[string]any{"type": "plain_text", "text": s} }
func mrkdwn(s string) map[string]any { return map[string]any{"type": "mrkdwn", "text": s} }

func block(kind string, kv ...any) map[string]any {
	b := map[string]any{"type": kind}
	for i := 0; i < len(kv); i += 2 {
		b[kv[i].(string)] = kv[i+1]
	}
	return b
}

func times(n int, f func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// Every limit lets pass what just fits and refuses one more.
func TestBlockLimits(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	button := func(kv ...any) map[string]any {
		return block("button", append([]any{"text", plain("go")}, kv...)...)
	}
	actions := func(b ...any) any { return block("actions", "elements", b) }
	f := func(name string, limit int, build func(n int) any) {
		t.Helper()
		for n, want := range map[int]string{limit: "", limit + 1: "invalid_blocks"} {
			blocks, ok := build(n).([]any)
			if !ok {
				blocks = []any{build(n)}
			}
			if got := contentError(t, "text", blocks); got != want {
				t.Errorf("%s of %d: %q, want %q", name, n, got, want)
			}
		}
	}
	f("header", 150, func(n int) any { return block("header", "text", plain(x(n))) })
	f("section", 3000, func(n int) any { return block("section", "text", mrkdwn(x(n))) })
	f("field", 2000, func(n int) any { return block("section", "fields", []any{mrkdwn(x(n))}) })
	f("fields", 10, func(n int) any { return block("section", "fields", times(n, func(int) any { return plain("x") })) })
	f("context", 3000, func(n int) any { return block("context", "elements", []any{mrkdwn(x(n))}) })
	f("context elements", 10, func(n int) any { return block("context", "elements", times(n, func(int) any { return plain("x") })) })
	f("blocks", 50, func(n int) any { return times(n, func(int) any { return block("divider") }) })
	f("actions", 25, func(n int) any { return actions(times(n, func(int) any { return button() })...) })
	f("button text", 75, func(n int) any { return actions(block("button", "text", plain(x(n)))) })
	f("button url", 3000, func(n int) any { return actions(button("url", x(n))) })
	f("button value", 2000, func(n int) any { return actions(button("value", x(n))) })
	f("action_id", 255, func(n int) any { return actions(button("action_id", x(n))) })
	f("block_id", 255, func(n int) any { return block("divider", "block_id", x(n)) })
	f("image url", 3000, func(n int) any { return block("image", "image_url", x(n), "alt_text", "x") })
	f("alt text", 2000, func(n int) any { return block("image", "image_url", "x", "alt_text", x(n)) })
	f("surrogates", 150, func(n int) any { return block("header", "text", plain(strings.Repeat("😀", n/2)+x(n%2))) })
}

func TestBlockShapes(t *testing.T) {
	t.Parallel()
	f := func(want string, blocks ...any) {
		t.Helper()
		if got := contentError(t, "text", blocks); got != want {
			t.Errorf("%v: %q, want %q", blocks, got, want)
		}
	}
	f("", block("section", "text", plain("x"), "accessory", block("button", "text", plain("x"))))
	f("invalid_blocks", block("section"))
	f("invalid_blocks", block("section", "text", plain("")))
	f("invalid_blocks", block("section", "text", plain(" \n ")))
	f("invalid_blocks", block("section", "text", "x"))
	f("invalid_blocks", block("section", "fields", []any{}))
	f("invalid_blocks", block("context", "elements", []any{}))
	f("invalid_blocks", block("header", "text", mrkdwn("x")))
	f("invalid_blocks", block("section", "text", map[string]any{"type": "html", "text": "x"}))
	f("invalid_blocks", block("section", "text", map[string]any{"type": "mrkdwn", "text": "x", "emoji": false}))
	f("invalid_blocks", block("section", "text", map[string]any{"type": "plain_text", "text": "x", "verbatim": true}))
	f("invalid_blocks", block("marquee"))
	f("invalid_blocks", block("divider", "block_id", "a"), block("divider", "block_id", "a"))
	f("invalid_blocks", block("actions", "elements", []any{block("select")}))
	section := func(n int) any { return block("section", "text", plain(strings.Repeat("x", n))) }
	f("", section(3000), section(3000), section(3000), section(597))
	f("msg_blocks_too_long", section(3000), section(3000), section(3000), section(598))
}

func contentError(t *testing.T, text string, blocks any) string {
	t.Helper()
	raw, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	_, rep := New().content(text, raw)
	return rep.err
}

func TestContent(t *testing.T) {
	t.Parallel()
	f := func(text, blocks, want string) {
		t.Helper()
		if _, rep := New().content(text, json.RawMessage(blocks)); rep.err != want {
			t.Errorf("text %q, blocks %s: %q, want %q", text, blocks, rep.err, want)
		}
	}
	f("x", "", "")
	f("x", "[]", "")
	f("", "", "no_text")
	f(" \n", "[]", "no_text")
	f("x", "{", "invalid_blocks_format")
	f("x", `{"type":"divider"}`, "invalid_blocks_format")
	f("x", `["divider"]`, "invalid_blocks_format")
	f("", `[{"type":"divider"}]`, "")
}

func TestViolations(t *testing.T) {
	t.Parallel()
	f := func(kind, text string, want bool) {
		t.Helper()
		s := New()
		s.inspect(kind, text)
		if got := len(s.violations) > 0; got != want {
			t.Errorf("%s %q: violations %q, want some: %v", kind, text, s.violations, want)
		}
	}
	f("mrkdwn", "plain &amp; simple &lt;!channel&gt;", false)
	f("mrkdwn", "<https://example.com/?a=1&amp;b=2|label>", false)
	f("mrkdwn", "<http://example.com>", false)
	f("mrkdwn", "```\ncode\n```", false)
	f("mrkdwn", "two\nlines", false)
	for _, live := range []string{"<!channel>", "<!here|here>", "<@U123>", "<#C123>", "<!subteam^S1>", "<!channel", "a <b", "a > b", "a & b", "&quot;", "<javascript:alert(1)|x>", "<https://a|b|c>", "<https:///x>", "\x1b[0m", "\u202e", "\u200b", "\t", "```\nopen"} {
		f("mrkdwn", live, true)
	}
	f("plain_text", "```", false)
	f("plain_text", "<https://example.com>", true)
	f("plain_text", "<!here>", true)
}

func FuzzContent(f *testing.F) {
	f.Add("x", `[{"type":"section","text":{"type":"mrkdwn","text":"x"}}]`)
	f.Add("<", `[{"type":"actions","elements":[1,null,{"type":"button"}]}]`)
	f.Fuzz(func(t *testing.T, text, blocks string) {
		s := New()
		kept, rep := s.content(text, json.RawMessage(blocks))
		if rep.err != "" && kept != nil {
			t.Errorf("refused with %s and kept", rep.err)
		}
		_ = Message{Text: text, Blocks: json.RawMessage(blocks)}.Visible()
	})
}

func ExampleServer_Script() {
	s := New()
	s.Script("chat.postMessage", RateLimited("7"))
	f, ok := s.next("chat.postMessage")
	fmt.Println(f.Status, f.Header.Get("Retry-After"), ok)
	// Output: 429 7 true
}

func TestBurst(t *testing.T) {
	t.Parallel()
	s := New()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return now }
	s.LimitBurst(time.Second, 3)
	c := s.channels[ChannelID]
	pass := func(want bool) {
		t.Helper()
		if rep := s.pace(c); (rep.err == "") != want {
			t.Errorf("passed %t (Retry-After %q), want %t", rep.err == "", rep.header.Get("Retry-After"), want)
		}
	}
	for range 3 {
		pass(true)
	}
	pass(false)
	now = now.Add(time.Second)
	pass(true)
	pass(false)
	now = now.Add(time.Hour)
	for range 3 {
		pass(true)
	}
	pass(false)
}
