package slack

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regpath/diagnose/notify"
)

// BotConfig says where and as whom a Bot speaks.
type BotConfig struct {
	// Name is what receipts call the sink; "slack" when empty.
	Name string
	// Token is the bot token (xoxb-…).
	Token notify.Secret
	// Channel is the channel's ID (C…). A name works as well, but then a lost
	// answer can only be reconciled once a first message has told the ID.
	Channel string
	// Fallback is the channel for what Channel does not take: it is gone, closed,
	// or not open to the bot. None when empty.
	Fallback string
	// PostEvery is the time between messages to one channel, apart from short
	// bursts; 1 s, which is Slack's limit, when zero, and none when negative.
	PostEvery time.Duration
	// Buttons puts buttons below reports; see Commands.
	Buttons bool
	// APIURL is the root of the Web API; https://slack.com/api/ when empty.
	APIURL string
	// Timeout bounds one call; 10 s when zero.
	Timeout time.Duration
	// Client makes the requests; one with defaults when nil. Its redirect
	// policy is not used.
	Client *http.Client
}

// Bot is the sink that posts with a bot token. It is safe for concurrent use;
// two notices about one incident at a time would race for its message.
type Bot struct {
	name     string
	channel  string
	fallback string
	api      client
	turns    *turns
	buttons  bool
	// id is the channel's ID as an answer gave it; nil until then.
	id atomic.Pointer[string]
}

var _ notify.Detailer = (*Bot)(nil)

// NewBot returns a Bot. It does no I/O.
func NewBot(c BotConfig) (*Bot, error) {
	if strings.TrimSpace(c.Token.Reveal()) == "" {
		return nil, errors.New("slack: no token")
	}
	if c.Channel == "" {
		return nil, errors.New("slack: no channel")
	}
	base := cmp.Or(c.APIURL, "https://slack.com/api/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("slack: api url: want http(s)://host/path/")
	}
	return &Bot{
		name:     cmp.Or(c.Name, "slack"),
		channel:  c.Channel,
		fallback: c.Fallback,
		buttons:  c.Buttons,
		turns:    newTurns(c.PostEvery),
		api:      client{base: strings.TrimSuffix(base, "/") + "/", token: c.Token, caller: newCaller(c.Client, c.Timeout)},
	}, nil
}

// Notify implements notify.Notifier: the incident's message is posted once and
// then edited, whatever the phase. A message that has been deleted is posted anew, one that can no
// longer be edited is answered in its thread. With n.Uncertain set the bot
// looks for what an earlier attempt may have left behind before it posts; where
// it is not allowed to look it posts, since a report said twice is better than
// one that is missing, and the incident's id is visible on both.
func (b *Bot) Notify(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	// Everybody else goes before what was only found so far: the report follows.
	s := session{bot: b, n: n, at: n.Prior, reserve: len(n.Findings) == 0 || n.Prior.Message == ""}
	s.at.Sink = b.name
	m := compose(n)
	if b.buttons && n.Report != nil {
		m = m.withButtons(n.Incident.ID)
	}
	err := s.say(ctx, m)
	return s.at, err
}

// Detail implements notify.Detailer: the whole report stands in the message's
// thread, on as many pages as it takes. A resolved incident only gets those that
// never arrived.
func (b *Bot) Detail(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
	s := session{bot: b, n: n, at: n.Prior}
	s.at.Sink = b.name
	err := s.detail(ctx)
	return s.at, err
}
