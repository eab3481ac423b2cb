package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/regpath/diagnose/notify"
)

// WebhookConfig says where a Webhook posts.
type WebhookConfig struct {
	// Name is what receipts and errors call the sink; "slack-webhook" when empty.
	Name string
	// URL is the incoming webhook. Whoever knows it can post: it is a secret.
	URL notify.Secret
	// Timeout bounds one call; 10 s when zero.
	Timeout time.Duration
	// Client makes the requests; one with defaults when nil. Its redirect
	// policy is not used.
	Client *http.Client
}

// Webhook is the sink that posts to an incoming webhook. A webhook tells neither
// where a message went nor lets it be edited: nothing is said while Looking, the
// report is posted once it is there, and a line follows when the incident has
// resolved and was looked at once more. Nor can it look whether an attempt of unknown outcome got through:
// such a notice is posted again, with the incident's id on both.
type Webhook struct {
	name string
	url  notify.Secret
	caller
}

var _ notify.Notifier = (*Webhook)(nil)

// NewWebhook returns a Webhook. It does no I/O. Its errors do not show the URL.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	u, err := url.Parse(strings.TrimSpace(c.URL.Reveal()))
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("slack: webhook url: want https://hooks.slack.com/services/…")
	}
	return &Webhook{
		name:   cmp.Or(c.Name, "slack-webhook"),
		url:    notify.NewSecret(u.String()),
		caller: newCaller(c.Client, c.Timeout),
	}, nil
}

// What Receipt.Message holds for want of a ts: what was last said.
const (
	saidReport   = "report"
	saidResolved = "resolved"
)

// Notify implements notify.Notifier.
func (w *Webhook) Notify(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	at := n.Prior
	at.Sink = w.name
	var m message
	said := saidReport
	switch {
	case n.Phase == notify.Looking, n.Phase == notify.Resolved && (n.Recovery == nil && n.Note == "" || at.Message == saidResolved):
		return at, nil
	case n.Phase == notify.Resolved:
		said = saidResolved
		lines := append([]string{icon(n) + " " + notify.Headline(n) + " · incident " + notify.Line(n.Incident.ID, 80)}, notify.RecoveryLines(n.Recovery)...)
		m.text = clip(defuse(strings.Join(lines, "\n")), maxText)
	default:
		m = compose(n)
	}
	err := w.post(ctx, m)
	if err != nil && len(m.blocks) > 0 && notify.ClassOf(err) == notify.Payload {
		m.blocks = nil
		err = w.post(ctx, m)
	}
	if err == nil {
		at.Message = said
	}
	return at, err
}

// post makes one attempt. Only 200 with the body "ok" is success.
func (w *Webhook) post(ctx context.Context, m message) error {
	body, err := json.Marshal(struct {
		Text   string        `json:"text"`
		Blocks []slack.Block `json:"blocks,omitempty"`
		Markup bool          `json:"mrkdwn"`
		Unfurl bool          `json:"unfurl_links"`
		Media  bool          `json:"unfurl_media"`
	}{Text: m.text, Blocks: m.blocks})
	if err != nil {
		return &notify.Error{Class: notify.Payload, Err: fmt.Errorf("encode message: %w", err)}
	}
	a, err := w.do(ctx, w.name, w.url.Reveal(), "application/json; charset=utf-8", "", body, true)
	if err != nil {
		return err
	}
	said := strings.TrimSpace(string(a.body))
	if a.status == http.StatusOK && said == "ok" {
		return nil
	}
	code := said
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(a.body, &answer) == nil && answer.Error != "" {
		code = answer.Error // a 429, and whatever answers as the Web API does
	}
	if isName(code) && a.status != http.StatusTooManyRequests && a.status < 500 {
		return refused(&apiError{method: w.name, code: code}, a.header, w.now())
	}
	return byStatus(w.name, a.status, said, a.header, true, w.now())
}

// isName reports whether s looks like the name of an error of Slack's rather
// than like prose or HTML.
func isName(s string) bool {
	return s == "ratelimited" ||
		len(s) <= 60 && strings.Contains(s, "_") && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
