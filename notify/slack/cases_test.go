package slack_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
)

// TestCases holds what went wrong in other people's tools, by the ids of the
// project's list.
func TestCases(t *testing.T) {
	t.Parallel()
	report := func(t *testing.T) *playbooks.Report { return loadReport(t, "cause-found") }
	reported := func(t *testing.T) notify.Notice {
		return notify.Notice{Incident: incident(), Phase: notify.Reported, Report: report(t)}
	}

	t.Run("S01 section over 3000 characters", func(t *testing.T) {
		t.Parallel()
		in := incident()
		in.Alerts[0].Annotations = map[string]string{"description": strings.Repeat("0123456789", 2000) + "END"}
		s := deliver(t, in, report(t))
		if got := strings.ReplaceAll(replyText(t, s), "\n", ""); !strings.Contains(got, "END") {
			t.Error("the end of the description is lost")
		}
	})
	t.Run("S02 header over 150 characters", func(t *testing.T) {
		t.Parallel()
		in, r := incident(), report(t)
		in.Title = strings.Repeat("N&", 200) + "\n"
		r.Causes[0].Title = strings.Repeat("長い原因 ", 100)
		deliver(t, in, r)
	})
	t.Run("S03 empty or blank text", func(t *testing.T) {
		t.Parallel()
		in := playbooks.Incident{ID: "i", Title: " ", Alerts: []playbooks.Alert{alert(map[string]string{"summary": "", "description": " \n\t"}, " "), {}}}
		deliver(t, in, &playbooks.Report{Findings: []playbooks.Finding{{}}, Gaps: []playbooks.Gap{{}}, RuledOut: []playbooks.RuledOut{{}}, Causes: []playbooks.Cause{{}, {}}, Verdict: playbooks.CauseFound})
		deliver(t, playbooks.Incident{}, &playbooks.Report{})
	})
	t.Run("S04 many labels", func(t *testing.T) {
		t.Parallel()
		in := incident()
		for i := range 60 {
			in.Alerts[0].Labels[fmt.Sprintf("label_%02d", i)] = strings.Repeat("v", 30)
		}
		if got := replyText(t, deliver(t, in, report(t))); !strings.Contains(got, "label_00") || !strings.Contains(got, "label_59") {
			t.Error("labels are missing")
		}
	})
	t.Run("S05 URL over 3000 characters", func(t *testing.T) {
		t.Parallel()
		in := incident()
		in.Alerts[0].GeneratorURL = "http://prom.example/graph?g0.expr=" + strings.Repeat("a", 5000)
		if got := botMessage(t, deliver(t, in, report(t))); strings.Contains(string(got.Blocks), "prom.example") {
			t.Error("the URL was shortened into a wrong one")
		}
	})
	t.Run("S06 too much text in all blocks together", func(t *testing.T) {
		t.Parallel()
		r := report(t)
		long := strings.Repeat("many words & more ", 55)
		for i := range 10 {
			id := fmt.Sprint("c", i)
			r.Causes[0].Explains = append(r.Causes[0].Explains, id)
			r.Causes = append(r.Causes, playbooks.Cause{ID: id, Title: long})
			r.Causes[0].Actions = append(r.Causes[0].Actions, long)
			r.Causes[0].Evidence = append(r.Causes[0].Evidence, playbooks.Observation{Fact: id + long, Expected: long})
			r.RuledOut = append(r.RuledOut, playbooks.RuledOut{Title: long, Because: long})
			r.Gaps = append(r.Gaps, playbooks.Gap{Step: id, Reason: long})
			r.Findings = append(r.Findings, playbooks.Finding{Step: id, Summary: long})
		}
		r.Summary = long
		s := deliver(t, incident(), r)
		if n := textInBlocks(t, botMessage(t, s)); n > 9000 || n < 4000 {
			t.Errorf("%d characters in blocks, want most of 9000 and no more", n)
		}
		if !strings.Contains(botMessage(t, s).Visible(), " more") {
			t.Error("nothing says that there is more")
		}
	})
	t.Run("S07 more than 50 blocks", func(t *testing.T) {
		t.Parallel()
		var more []playbooks.Alert
		for i := range 59 {
			more = append(more, playbooks.Alert{Firing: true, Labels: map[string]string{"alertname": fmt.Sprintf("Alert%02d", i)}})
		}
		s := deliver(t, incident(more...), report(t))
		if !strings.Contains(botMessage(t, s).Visible(), "60 alerts") {
			t.Error("the message does not say how many alerts there are")
		}
		if got := replyText(t, s); !strings.Contains(got, "Alert58") {
			t.Error("alerts are missing in the thread")
		}
	})
	t.Run("S08 errors of another shape", func(t *testing.T) {
		t.Parallel()
		for _, odd := range []string{`[{"foo":"bar"}]`, `{}`, `{"foo":[1]}`, `["text"]`, `"text"`, `null`, `7`} {
			s := slacktest.Start(t)
			s.Script("chat.postMessage", slacktest.JSON(`{"ok":false,"error":"invalid_blocks","errors":`+odd+`}`))
			n := reported(t)
			n.Report = nil
			must(t, newBot(t, s), n)
			if m := only(t, s); m.Blocks != nil || !strings.Contains(m.Text, "CheckLatencyHigh") {
				t.Errorf("errors %s: posted %q with blocks %s, want plain text", odd, m.Text, m.Blocks)
			}
			if n := s.Count("chat.postMessage"); n != 2 {
				t.Errorf("errors %s: %d attempts, want 2", odd, n)
			}
		}
	})
	t.Run("S08 plain text is refused too", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		s.Script("chat.postMessage", slacktest.Fail("invalid_blocks"), slacktest.Fail("invalid_blocks"), slacktest.Fail("invalid_blocks"))
		fails(t, newBot(t, s), reported(t), notify.Payload)
		if n := s.Count("chat.postMessage"); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
	})
	t.Run("S08 on an edit", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b, n := newBot(t, s), reported(t)
		n.Prior = must(t, b, n)
		s.Script("chat.update", slacktest.Fail("msg_blocks_too_long"))
		must(t, b, n)
		if m := only(t, s); m.Blocks != nil || len(m.Edits) != 1 {
			t.Errorf("blocks %s after %d edits, want plain text after one", m.Blocks, len(m.Edits))
		}
	})
	t.Run("S09 Retry-After in odd forms", func(t *testing.T) {
		t.Parallel()
		const fallback = 30 * time.Second
		for header, want := range map[string]time.Duration{
			"7": 7 * time.Second, "": fallback, "1.5": 2 * time.Second, "soon": fallback, "-3": fallback, "NaN": fallback,
			"0": time.Second, "999999999": 15 * time.Minute, "1e300": 15 * time.Minute, "+Inf": fallback,
			"Mon, 30 Nov 2026 16:00:00 GMT": 15 * time.Minute, "Mon, 30 Nov 1998 16:00:00 GMT": time.Second,
		} {
			s := slacktest.Start(t)
			limited := slacktest.RateLimited(header)
			if strings.HasSuffix(header, "2026 16:00:00 GMT") {
				limited.Header.Set("Date", "Mon, 30 Nov 2026 10:00:00 GMT")
			}
			s.Script("chat.postMessage", limited)
			s.Script("webhook", limited)
			for _, sink := range []notify.Notifier{newBot(t, s), newWebhook(t, s.WebhookURL())} {
				if _, e := fails(t, sink, reported(t), notify.Retry); e.RetryAfter != want {
					t.Errorf("Retry-After %q: %T waits %v, want %v", header, sink, e.RetryAfter, want)
				}
			}
		}
		for name, f := range map[string]slacktest.Fault{"silent": slacktest.RateLimitedSilently(), "with 200": slacktest.Fail("rate_limited"), "as text": slacktest.Status(429, "slow down")} {
			s := slacktest.Start(t)
			s.Script("chat.postMessage", f)
			if _, e := fails(t, newBot(t, s), reported(t), notify.Retry); e.RetryAfter != fallback {
				t.Errorf("%s: waits %v, want %v", name, e.RetryAfter, fallback)
			}
		}
	})
	t.Run("S10 accepted, then the answer is lost", func(t *testing.T) {
		t.Parallel()
		for name, fault := range map[string]slacktest.Fault{"cut": slacktest.CutAfter(), "500": {Accept: true, Status: 500}, "html": {Accept: true, Status: 200, Body: "<html>"}, "half": {Accept: true, Status: 200, Body: `{"ok":true,"chan`}, "fatal_error": {Accept: true, Status: 200, Body: `{"ok":false,"error":"fatal_error"}`}} {
			s := slacktest.Start(t)
			b, n := newBot(t, s), reported(t)
			s.Script("chat.postMessage", fault)
			n.Prior, _ = fails(t, b, n, notify.Unknown)
			if got := s.Count("chat.postMessage"); got != 1 {
				t.Errorf("%s: %d attempts, want 1", name, got)
			}
			n.Uncertain = true
			at := must(t, b, n)
			if m := only(t, s); at.Message != m.TS || at.Channel != slacktest.ChannelID {
				t.Errorf("%s: receipt %+v, want the message that is there, %s", name, at, m.TS)
			}
		}
	})
	t.Run("S10 the details got through, their answer is lost", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b, n := newBot(t, s), reported(t)
		n.Prior = must(t, b, notify.Notice{Incident: n.Incident})
		s.Script("chat.postMessage", slacktest.CutAfter())
		n.Prior, _ = fails(t, b, n, notify.Unknown)
		n.Uncertain = true
		n.Prior = must(t, b, n)
		if got := len(s.Replies(only(t, s))); got != len(strings.Fields(n.Prior.Detail)) || got == 0 {
			t.Errorf("%d replies, receipt %+v; want each once", got, n.Prior)
		}
	})
	t.Run("S10 lost before it was accepted", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b, n := newBot(t, s), reported(t)
		s.Script("chat.postMessage", slacktest.CutBefore())
		fails(t, b, n, notify.Unknown)
		n.Uncertain = true
		must(t, b, n)
		only(t, s)
	})
	t.Run("S10 hangs", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b := newBot(t, s, func(c *slack.BotConfig) { c.Timeout = 200 * time.Millisecond })
		s.Script("chat.postMessage", slacktest.HangAfter())
		n := reported(t)
		start := time.Now()
		fails(t, b, n, notify.Unknown)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
		n.Uncertain = true
		must(t, b, n)
		only(t, s)
	})
	t.Run("S10 may not look", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		n := reported(t)
		n.Uncertain = true
		s.Script("conversations.history", slacktest.Fail("missing_scope"), slacktest.Fail("ratelimited"))
		must(t, newBot(t, s), n)
		fails(t, newBot(t, s), n, notify.Retry) // cannot look now: not a reason to say it twice
		only(t, s)
	})
	t.Run("S10 looks through many messages of others", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b, n := newBot(t, s), reported(t)
		n.Report = nil
		first := must(t, b, n)
		w := newWebhook(t, s.WebhookURL())
		for range 250 {
			must(t, w, notify.Notice{Incident: playbooks.Incident{ID: "other"}, Phase: notify.Resolved})
		}
		n.Uncertain = true
		if at := must(t, b, n); at.Message != first.Message {
			t.Errorf("receipt %+v, want %+v", at, first)
		}
	})
	t.Run("S11 link broken by angle or pipe", func(t *testing.T) {
		t.Parallel()
		in := incident()
		in.Alerts[0].GeneratorURL = "http://prom.example/graph?g0.expr=a<b|c>d&x=`y` z"
		got := botMessage(t, deliver(t, in, report(t)))
		if want := `http://prom.example/graph?g0.expr=a%3Cb%7Cc%3Ed&amp;x=%60y%60%20z|`; !strings.Contains(decoded(t, got.Blocks), want) {
			t.Errorf("no link to %s in %s", want, decoded(t, got.Blocks))
		}
		for _, u := range []string{"javascript:alert(1)", "file:///etc/passwd", "slack://open", "//evil", "http://", "https://user:pw@evil/", "ht\ttp://x", "http://\u202ex/"} {
			in.Alerts[0].GeneratorURL = u
			if got := botMessage(t, deliver(t, in, report(t))); strings.Contains(decoded(t, got.Blocks), "<") {
				t.Errorf("%q became a link: %s", u, decoded(t, got.Blocks))
			}
		}
	})
	t.Run("S14 mentions and links in foreign text", func(t *testing.T) {
		t.Parallel()
		for _, evil := range []string{
			"<!channel> <@U123> <https://evil.example/pwn|remediate> *b* _i_ `c` ~s~ &amp; & < >",
			"```\n``` <!subteam^S1>", "````", "&lt;!channel&gt;", "<!here", strings.Repeat("<!channel>", 2000),
		} {
			s := deliver(t, hostileIncident(evil), hostileReport(evil))
			for _, m := range s.Messages() {
				if strings.Contains(m.Text, "<!") || strings.Contains(decoded(t, m.Blocks), "<!") {
					t.Errorf("a mention is live in %q", m.Text)
				}
			}
		}
	})
	t.Run("S15 webhook URL in errors", func(t *testing.T) {
		t.Parallel()
		const canary = "canarySecretPath"
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dead := "http://" + l.Addr().String() + "/services/" + canary
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		w := newWebhook(t, dead)
		_, e := fails(t, w, reported(t), notify.Retry) // refused: surely not sent
		for err := error(&e); err != nil; err = errors.Unwrap(err) {
			if text := fmt.Sprintf("%v %+v %#v %s %v %+v", err, err, err, err, w, *w); strings.Contains(text, canary) {
				t.Errorf("the URL shows: %s", text)
			}
		}
		b, err := slack.NewBot(slack.BotConfig{Token: notify.NewSecret(canary), Channel: "C1", APIURL: "http://" + l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		_, e = fails(t, b, reported(t), notify.Retry)
		if text := fmt.Sprintf("%v %+v %#v", &e, b, b); strings.Contains(text, canary) {
			t.Errorf("the token shows: %s", text)
		}
	})
	t.Run("S16 200 that is no success", func(t *testing.T) {
		t.Parallel()
		for name, f := range map[string]slacktest.Fault{
			"no error name": slacktest.JSON(`{"ok":false}`), "blank error": slacktest.JSON(`{"ok":false,"error":""}`), "no ts": slacktest.JSON(`{"ok":true,"channel":"C1"}`),
			"html": slacktest.HTML(), "empty": slacktest.JSON(""), "text": slacktest.JSON("ok"), "array": slacktest.JSON("[]"), "null": slacktest.JSON("null"), "204": {Status: 204},
		} {
			s := slacktest.Start(t)
			s.Script("chat.postMessage", f)
			if at, _ := fails(t, newBot(t, s), reported(t), notify.Unknown); at.Message != "" {
				t.Errorf("%s: receipt %+v", name, at)
			}
		}
		for body, want := range map[string]notify.Class{
			`{"ok":false}`: notify.Unknown, "": notify.Unknown, "<html>": notify.Unknown, "OK, boss": notify.Unknown,
			"no_text": notify.Payload, `{"ok":false,"error":"channel_not_found"}`: notify.Destination,
		} {
			s := slacktest.Start(t)
			s.Script("webhook", slacktest.JSON(body), slacktest.JSON(body))
			if at, _ := fails(t, newWebhook(t, s.WebhookURL()), reported(t), want); at.Message != "" {
				t.Errorf("%s: receipt %+v", body, at)
			}
		}
	})
	t.Run("S18 message_limit_exceeded", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		s.Script("chat.postMessage", slacktest.Fail("message_limit_exceeded"))
		if _, e := fails(t, newBot(t, s), reported(t), notify.Destination); e.RetryAfter < time.Hour || e.Hint == "" {
			t.Errorf("retry after %v with hint %q, want a long time and a hint", e.RetryAfter, e.Hint)
		}
	})
	t.Run("S19 private channel without the bot", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		s.AddChannel("C0PRIVATE", "private", false)
		b := newBot(t, s, func(c *slack.BotConfig) { c.Channel = "C0PRIVATE" })
		_, e := fails(t, b, reported(t), notify.Destination)
		if !strings.Contains(e.Error(), "C0PRIVATE") || !strings.Contains(e.Hint, "invite the bot") {
			t.Errorf("error %q, want the channel and a hint to invite the bot", e.Error())
		}
	})
	t.Run("S20 webhook of an archived channel", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		s.Archive(slacktest.ChannelID)
		w, err := slack.NewWebhook(slack.WebhookConfig{Name: "team-chat", URL: notify.NewSecret(s.WebhookURL())})
		if err != nil {
			t.Fatal(err)
		}
		_, e := fails(t, w, reported(t), notify.Destination)
		if !strings.Contains(e.Error(), "team-chat: channel_is_archived") || strings.Contains(e.Error(), "services") {
			t.Errorf("error %q, want the destination by name", e.Error())
		}
		fails(t, newBot(t, s), reported(t), notify.Destination)
	})
}
