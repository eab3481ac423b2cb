package slack_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/playbooks"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestBotLife(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	b := newBot(t, s)
	n := notify.Notice{Incident: incident(), Checks: []string{"Bloom filter", "Redis", "Shards", "Errors"}}

	n.Prior = must(t, b, n)
	first := only(t, s)
	if got := first.FirstLine(); got != "🔎 Looking into CheckLatencyHigh" {
		t.Errorf("first line while looking: %q", got)
	}
	for _, want := range []string{"P99 of name checks is above 500 ms", "Bloom filter, Redis, Shards, Errors", "inc-7f3a", "P0"} {
		if !strings.Contains(first.Visible(), want) {
			t.Errorf("no %q while looking:\n%s", want, first.Visible())
		}
	}
	want := notify.Receipt{Sink: "slack", Channel: slacktest.ChannelID, Message: first.TS}
	if n.Prior != want {
		t.Errorf("receipt %+v, want %+v", n.Prior, want)
	}
	if !strings.Contains(string(first.Metadata), `"incident":"inc-7f3a"`) {
		t.Errorf("metadata %s does not name the incident", first.Metadata)
	}

	n.Findings = []playbooks.Finding{{Step: "bloom", Title: "Bloom filter", Status: playbooks.Critical, Summary: "97 % <!channel> full."}}
	n.Prior = must(t, b, n)
	if got := only(t, s).Visible(); !strings.Contains(got, "So far:\ncritical Bloom filter: 97 % <!channel> full.") || !strings.Contains(got, "Checking: Bloom") {
		t.Errorf("no word of what was found so far:\n%s", got)
	}

	n.Phase, n.Report = notify.Reported, loadReport(t, "cause-found")
	n.Prior = must(t, b, n)
	reported := only(t, s)
	if got, want := reported.FirstLine(), "🔴 The query path writes to the Bloom filter (high confidence)"; got != want {
		t.Errorf("first line of the report %q, want %q", got, want)
	}
	if got, _, _ := strings.Cut(reported.Text, "\n"); got != "🔴 The query path writes to the Bloom filter (high confidence)" {
		t.Errorf("first line of the fallback %q", got)
	}
	if reported.TS != first.TS || len(reported.Edits) != 2 || string(reported.Metadata) != string(first.Metadata) {
		t.Errorf("ts %s with %d edits and metadata %s, want the first message edited twice, its metadata kept", reported.TS, len(reported.Edits), reported.Metadata)
	}
	if reported.Markup {
		t.Error("the fallback, which holds foreign text, is read as markup")
	}
	thread := threadText(t, s)
	for _, want := range []string{"names_added 243,327", "changes.flag_age_seconds (unknown)", "summary: P99 of name checks"} {
		if !strings.Contains(thread, want) {
			t.Errorf("no %q in the thread:\n%s", want, thread)
		}
	}
	if n.Prior.Detail == "" {
		t.Error("the receipt does not name the details")
	}

	replies := len(s.Replies(reported))
	n.Phase, n.Incident.ResolvedAt = notify.Resolved, began.Add(12*time.Minute)
	n.Prior = must(t, b, n)
	resolved := only(t, s)
	if got, want := resolved.FirstLine(), "✅ Resolved after 12 min: The query path writes to the Bloom filter (high confidence)"; got != want {
		t.Errorf("first line when resolved %q, want %q", got, want)
	}
	if resolved.TS != first.TS || len(resolved.Edits) != 3 || len(s.Replies(resolved)) != replies {
		t.Errorf("resolving gave ts %s, %d edits, %d replies; want %s, 3, %d", resolved.TS, len(resolved.Edits), len(s.Replies(resolved)), first.TS, replies)
	}
	clean(t, s)
}

func TestBotReportsAnew(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	b := newBot(t, s)
	n := notify.Notice{Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "cause-found")}
	n.Report.Findings[0].Because = strings.Repeat("x ", 400)
	for i := range 8 {
		f := n.Report.Findings[0]
		f.Step = fmt.Sprint("extra", i)
		n.Report.Findings = append(n.Report.Findings, f)
	}
	n.Prior = must(t, b, n)
	long := len(s.Replies(only(t, s)))
	n.Report = loadReport(t, "healthy")
	n.Prior = must(t, b, n)
	root := only(t, s)
	if got := root.FirstLine(); got != "🟢 Healthy: all four layers are within their limits" {
		t.Errorf("first line %q", got)
	}
	replies := s.Replies(root)
	if len(replies) != long || long < 2 {
		t.Fatalf("%d replies after %d, want the same, several", len(replies), long)
	}
	for i, r := range replies {
		if len(r.Edits) != 1 {
			t.Errorf("reply %d has %d edits, want 1", i, len(r.Edits))
		}
	}
	if got := replies[long-1].Visible(); got != "This part is no longer needed." {
		t.Errorf("a page too many says %q", got)
	}
	clean(t, s)
}

func TestBotGolden(t *testing.T) {
	for name, n := range map[string]notify.Notice{
		"looking":      {Incident: incident(), Checks: []string{"Bloom filter", "Redis", "Shards", "Errors"}},
		"cause-found":  {Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "cause-found")},
		"healthy":      {Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "healthy")},
		"inconclusive": {Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "inconclusive")},
		"half-blind":   {Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "half-blind")},
		"resolved": {Incident: func() playbooks.Incident {
			in := incident()
			in.ResolvedAt = began.Add(12 * time.Minute)
			return in
		}(), Phase: notify.Resolved, Report: loadReport(t, "cause-found")},
	} {
		t.Run(name, func(t *testing.T) {
			s := slacktest.Start(t)
			must(t, newBot(t, s), n)
			clean(t, s)
			var got bytes.Buffer
			for _, m := range s.Messages() {
				doc, err := json.MarshalIndent(struct {
					Text     string          `json:"text"`
					Blocks   json.RawMessage `json:"blocks,omitempty"`
					Metadata json.RawMessage `json:"metadata"`
				}{m.Text, m.Blocks, m.Metadata}, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				got.Write(append(doc, '\n'))
			}
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("%s differs; got:\n%s", file, &got)
			}
		})
	}
}

// A page of details that somebody deleted comes back when there is something new on it.
func TestBotMendsDetails(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	b := newBot(t, s)
	n := notify.Notice{Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "cause-found")}
	n.Prior = must(t, b, n)
	before := s.Replies(only(t, s))[0].TS
	s.Delete(n.Prior.Channel, before)
	n.Report.Summary += " And more."
	n.Prior = must(t, b, n)
	if replies := s.Replies(only(t, s)); len(replies) != 1 || !strings.HasPrefix(n.Prior.Detail, replies[0].TS+"/") || replies[0].TS == before {
		t.Errorf("%d replies, details %q after %q; want one new one", len(replies), n.Prior.Detail, before)
	}
	n.Prior.Detail, _, _ = strings.Cut(n.Prior.Detail, "/") // as older receipts have it
	if n.Prior = must(t, b, n); len(s.Replies(only(t, s))) != 1 {
		t.Errorf("%d replies, want the one there was", len(s.Replies(only(t, s))))
	}
	n.Phase = notify.Resolved
	must(t, b, n)
	if got := s.Replies(only(t, s))[0].Edits; len(got) != 1 {
		t.Errorf("the details have %d edits, want the one from before: resolving leaves them", len(got))
	}
}

// A message that can no longer be edited is answered in its thread, once; one
// that is gone is posted anew, with its details.
func TestBotCannotEdit(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"cant_update_message", "edit_window_closed", "is_inactive", "update_failed", "block_mismatch", "streaming_state_conflict"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := slacktest.Start(t)
			b := newBot(t, s)
			n := notify.Notice{Incident: incident()}
			n.Prior = must(t, b, n)
			n.Phase, n.Report = notify.Reported, loadReport(t, "cause-found")
			s.Script("chat.update", slacktest.Fail(code), slacktest.Fail(code))
			got := must(t, b, n)
			must(t, b, n) // the caller lost the receipt: no second answer
			if got.Message != n.Prior.Message {
				t.Errorf("receipt names %s, want the root %s", got.Message, n.Prior.Message)
			}
			said := 0
			for _, m := range s.Replies(only(t, s)) {
				if strings.HasPrefix(m.FirstLine(), "🔴 The query path writes") {
					said++
				}
			}
			if said != 1 {
				t.Errorf("the report stands %d times in the thread, want once", said)
			}
			clean(t, s)
		})
	}
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b := newBot(t, s)
		n := notify.Notice{Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "cause-found")}
		n.Prior = must(t, b, n)
		s.Delete(n.Prior.Channel, n.Prior.Message)
		got := must(t, b, n)
		root := only(t, s)
		if got.Message != root.TS || got.Message == n.Prior.Message || len(s.Replies(root)) == 0 {
			t.Errorf("receipt %+v, message %s with %d replies; want a new one with its details", got, root.TS, len(s.Replies(root)))
		}
	})
	t.Run("thread locked", func(t *testing.T) {
		t.Parallel()
		s := slacktest.Start(t)
		b := newBot(t, s)
		n := notify.Notice{Incident: incident()}
		n.Prior = must(t, b, n)
		n.Phase = notify.Reported
		s.Script("chat.update", slacktest.Fail("edit_window_closed"))
		s.Script("chat.postMessage", slacktest.Fail("restricted_action_thread_locked"))
		if got := must(t, b, n); got.Message == n.Prior.Message {
			t.Error("nothing was posted into the channel")
		}
	})
}

// What landed before a failure is in the receipt, and the next attempt goes on
// from there.
func TestBotGoesOn(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	b := newBot(t, s)
	n := notify.Notice{Incident: incident(), Phase: notify.Reported, Report: loadReport(t, "cause-found")}
	n.Report.Findings[0].Because = strings.Repeat("x ", 450)
	for range 6 {
		n.Report.Findings = append(n.Report.Findings, n.Report.Findings[0])
	}
	s.Script("chat.postMessage", slacktest.Fail("ratelimited"))
	at, e := fails(t, b, n, notify.Retry)
	if at.Message != "" || e.RetryAfter != 30*time.Second {
		t.Errorf("receipt %+v, retry after %v; want none and 30 s", at, e.RetryAfter)
	}
	s.Limit(time.Hour) // one message passes, the thread does not
	at, e = fails(t, b, n, notify.Retry)
	if at.Message == "" || at.Detail != "" || e.RetryAfter != 15*time.Minute {
		t.Errorf("receipt %+v, retry after %v; want the message without details and the cap of 15 min", at, e.RetryAfter)
	}
	s.Limit(0)
	n.Prior = at
	at = must(t, b, n)
	root := only(t, s)
	if got := strings.Fields(at.Detail); len(got) != len(s.Replies(root)) || len(got) < 2 {
		t.Errorf("details %q, %d replies; want them all, several", at.Detail, len(s.Replies(root)))
	}
	if want := s.Replies(root)[0].TS + "/"; !strings.HasPrefix(at.Detail, want) {
		t.Errorf("details %q do not begin with the first reply %s", at.Detail, want)
	}

	// What stands in the thread already is not written again, whatever else has failed.
	edits := func() (n int) {
		for _, r := range s.Replies(root) {
			n += len(r.Edits)
		}
		return n
	}
	n.Prior = at
	must(t, b, n)
	if got := edits(); got != 0 {
		t.Errorf("%d edits of details that have not changed", got)
	}
	last := len(n.Report.Findings) - 1
	n.Report.Findings[last].Because += "at the end"
	n.Prior = must(t, b, n)
	if got := edits(); got != 1 {
		t.Errorf("%d edits, want one, of the page that has changed", got)
	}
}

// TestBotBehindAProxy: what does not come from Slack, which names what it refuses, says
// nothing about the channel or the token: it is repeated, and nothing is said twice.
func TestBotBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, status := range []int{302, 400, 401, 403, 404, 407} {
		s := slacktest.Start(t)
		b := newBot(t, s)
		n := notify.Notice{Incident: incident(), Phase: notify.Looking}
		s.Script("chat.postMessage", slacktest.Status(status, "<html>please log in</html>"))
		if at, err := b.Notify(t.Context(), n); notify.ClassOf(err) != notify.Unknown || !strings.Contains(err.Error(), "proxy") {
			t.Fatalf("status %d: got %+v, %v, want an unknown outcome and a hint at a proxy", status, at, err)
		}
		n.Uncertain = true
		s.Script("conversations.history", slacktest.Status(status, "<html>please log in</html>"))
		if _, err := b.Notify(t.Context(), n); notify.ClassOf(err) != notify.Retry {
			t.Errorf("status %d: looking for the message: got %v, want to look again", status, err)
		}
		must(t, b, n)
		only(t, s)
	}
}
