package slack_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/notify/slack/slacktest"
)

const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// desk takes orders and remembers them.
type desk struct {
	t      *testing.T
	http   http.Handler
	orders []slack.Order
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t}
	h, err := slack.NewCommands(slack.CommandsConfig{
		Secret: notify.NewSecret(signingSecret), Users: []string{"U0BOSS"}, Channels: []string{"C0OPS"},
		Do: func(o slack.Order) string {
			d.orders = append(d.orders, o)
			return "looking <!channel>"
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.http = h
	return d
}

// request is a signed one.
func (d *desk) request(form url.Values, age time.Duration) *http.Request {
	d.t.Helper()
	r, err := slacktest.Signed(d.t.Context(), "/slack", signingSecret, form, time.Now().Add(-age))
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// wants sends a request and checks the status and how many orders there are then.
func (d *desk) wants(what string, r *http.Request, status, orders int) string {
	d.t.Helper()
	rec := httptest.NewRecorder()
	d.http.ServeHTTP(rec, r)
	if rec.Code != status || len(d.orders) != orders {
		d.t.Errorf("%s: got status %d and %d orders, want %d and %d", what, rec.Code, len(d.orders), status, orders)
	}
	return rec.Body.String()
}

func TestOrders(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	command := slacktest.SlashCommand("U0BOSS", "C0ANY", "/diagnose", " registration-path  registration ")
	got := d.wants("slash command", d.request(command, 0), http.StatusOK, 1)
	if !strings.Contains(got, `"response_type":"ephemeral"`) || !strings.Contains(got, `looking \u0026lt;!channel\u0026gt;`) {
		t.Errorf("answer %s, want it escaped and for the user alone", got)
	}
	if o := d.orders[0]; o.User != "U0BOSS" || o.Channel != "C0ANY" || !slices.Equal(o.Words, []string{"registration-path", "registration"}) || o.Button != "" {
		t.Errorf("order %+v", o)
	}
	press, err := slacktest.Press("U0OTHER", slacktest.Message{Channel: "C0OPS", TS: "1.000001"}, string(slack.ButtonWrong), "inc-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.wants("button", d.request(press, 0), http.StatusOK, 2); got != "" {
		t.Errorf("a button is answered %q, want nothing", got)
	}
	if o := d.orders[1]; o.Button != slack.ButtonWrong || o.Incident != "inc-1" || o.Message != "1.000001" || o.Channel != "C0OPS" || o.User != "U0OTHER" {
		t.Errorf("order %+v", o)
	}
}

// Orders that somebody else makes up, keeps for later, or may not give (S22, S23).
func TestOrdersRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	command := slacktest.SlashCommand("U0BOSS", "C0OPS", "/diagnose", "")
	spoil := func(change func(*http.Request)) *http.Request {
		r := d.request(command, 0)
		change(r)
		return r
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for what, r := range map[string]*http.Request{
		"no signature":      spoil(func(r *http.Request) { r.Header.Del("X-Slack-Signature") }),
		"no time":           spoil(func(r *http.Request) { r.Header.Del("X-Slack-Request-Timestamp") }),
		"another time":      spoil(set("X-Slack-Request-Timestamp", "1700000000")),
		"odd time":          spoil(set("X-Slack-Request-Timestamp", "soon")),
		"wrong signature":   spoil(set("X-Slack-Signature", "v0="+strings.Repeat("0", 64))),
		"another version":   spoil(set("X-Slack-Signature", "v1="+strings.Repeat("0", 64))),
		"no hexadecimal":    spoil(set("X-Slack-Signature", "v0=zz")),
		"another body":      spoil(func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("command=/diagnose&user_id=U0BOSS")) }),
		"six minutes old":   d.request(command, 6*time.Minute),
		"six minutes ahead": d.request(command, -6*time.Minute),
	} {
		d.wants(what, r, http.StatusUnauthorized, 0)
	}
	d.wants("GET", httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/slack", http.NoBody), http.StatusMethodNotAllowed, 0)
	d.wants("large", spoil(func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 2<<20))) }), http.StatusBadRequest, 0)

	press, err := slacktest.Press("U0BOSS", slacktest.Message{Channel: "C0OPS", TS: "1.000001"}, string(slack.ButtonRight), "inc-1")
	if err != nil {
		t.Fatal(err)
	}
	query := d.request(url.Values{}, 0)
	query.URL.RawQuery = press.Encode()
	d.wants("payload in the query", query, http.StatusBadRequest, 0)
	for what, payload := range map[string]string{
		"no JSON": "{", "another kind": `{"type":"view_submission"}`, "no action": `{"type":"block_actions","actions":[]}`,
		"another's button": `{"type":"block_actions","actions":[{"type":"button","action_id":"delete_all"}]}`,
	} {
		d.wants(what, d.request(url.Values{"payload": {payload}}, 0), http.StatusBadRequest, 0)
	}
	d.wants("nothing", d.request(url.Values{}, 0), http.StatusBadRequest, 0)

	got := d.wants("a stranger", d.request(slacktest.SlashCommand("U0X", "C0X", "/diagnose", ""), 0), http.StatusOK, 0)
	if !strings.Contains(got, "You may not do this") {
		t.Errorf("a stranger is answered %q", got)
	}
}

// Slack repeats what was not answered in time, and so may whoever has overheard
// it: one order is carried out once, and answered the same.
func TestS22OrderOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	at := time.Now()
	var answers []string
	for range 3 {
		r, err := slacktest.Signed(t.Context(), "/slack", signingSecret, slacktest.SlashCommand("U0BOSS", "C0OPS", "/diagnose", ""), at)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Slack-Retry-Num", "1")
		answers = append(answers, d.wants("repeated", r, http.StatusOK, 1))
	}
	if answers[0] != answers[1] || answers[1] != answers[2] {
		t.Errorf("answers differ: %q", answers)
	}
}

func TestCommandsConfig(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]slack.CommandsConfig{
		"no signing secret": {Users: []string{"U"}},
		"nobody may":        {Secret: notify.NewSecret("x")},
	} {
		if _, err := slack.NewCommands(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Buttons stand below a report, within Slack's limits, and not before there is one.
func TestButtons(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	b := newBot(t, s, func(c *slack.BotConfig) { c.Buttons = true })
	n := notify.Notice{Incident: incident()}
	n.Prior = must(t, b, n)
	if got := only(t, s); strings.Contains(string(got.Blocks), "diagnose_right") {
		t.Error("there are buttons without a report")
	}
	n.Phase, n.Report = notify.Reported, loadReport(t, "cause-found")
	n.Prior = must(t, b, n)
	got := string(only(t, s).Blocks)
	for _, want := range []slack.Button{slack.ButtonAgain, slack.ButtonEvidence, slack.ButtonRight, slack.ButtonWrong} {
		if !strings.Contains(got, string(want)) {
			t.Errorf("no button %s in %s", want, got)
		}
	}
	if err := b.Whisper(t.Context(), n.Prior.Channel, n.Prior.Message, "U0BOSS", "thank <you>"); err != nil {
		t.Errorf("Whisper: %v", err)
	}
	if w := s.Whispers(); len(w) != 1 || w[0].User != "U0BOSS" || w[0].Text != "thank &lt;you&gt;" || w[0].ThreadTS != n.Prior.Message {
		t.Errorf("whispers %+v", w)
	}
	clean(t, s)
}
