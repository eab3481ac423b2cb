package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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
	s := session{bot: b, n: n, at: n.Prior, urgent: len(n.Findings) == 0 || n.Prior.Message == ""}
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

// session is one Notify or Detail under way; at grows as messages land.
type session struct {
	bot *Bot
	n   notify.Notice
	at  notify.Receipt
	// urgent goes before what is not.
	urgent bool
}

// The parts of an incident that have messages of their own, as their metadata
// names them.
const (
	partMain   = "main"
	partDetail = "detail-" // and the number of the page
	partLater  = "later-"  // and the phase: said in the thread of a message that cannot be edited
)

// say brings the incident's message to its present state.
func (s *session) say(ctx context.Context, m message) error {
	if s.at.Instead != "" {
		m = m.instead(s.at.Instead)
	}
	if s.at.Message != "" {
		err := s.bot.update(ctx, s.at.Channel, s.at.Message, m, s.urgent)
		switch {
		case cannotEdit(err):
			later := s.post(s.at.Message, partLater+strconv.Itoa(int(s.n.Phase)))
			later.mayExist = true // the receipt has no room for it
			_, err = s.bot.post(ctx, later, m)
			if !noThread(err) {
				return err
			}
		case !isGone(err) && !s.canEvade(err):
			return err
		}
		s.at.Message, s.at.Detail = "", ""
	}
	landed, err := s.bot.post(ctx, s.post("", partMain), m)
	if s.canEvade(err) {
		landed, err = s.evade(ctx, m, err)
	}
	if err == nil {
		s.at.Channel, s.at.Message = landed.channel, landed.ts
		if s.at.Instead == "" {
			s.bot.id.CompareAndSwap(nil, &landed.channel)
		}
	}
	return err
}

// canEvade reports whether err says that the channel is closed to us while there
// is another one.
func (s *session) canEvade(err error) bool {
	return err != nil && s.bot.fallback != "" && s.at.Instead == "" && notify.ClassOf(err) == notify.Destination
}

// evade posts into the fallback channel, saying why.
func (s *session) evade(ctx context.Context, m message, why error) (place, error) {
	s.at.Instead = notify.Line(why.Error(), 300)
	to := s.post("", partMain)
	landed, err := s.bot.post(ctx, to, m.instead(s.at.Instead))
	if err != nil {
		s.at.Instead = ""
		if e, ok := errors.AsType[*notify.Error](err); ok {
			both := *e
			both.Err = fmt.Errorf("%w; in its place: %w", why, e.Err)
			return landed, &both
		}
		return landed, err
	}
	return landed, nil
}

// detail brings the detail messages in the thread to their present state, but for
// those that are in it: an attempt goes on where the last one failed.
func (s *session) detail(ctx context.Context) error {
	pages, err := details(s.n)
	if err != nil {
		return &notify.Error{Class: notify.Payload, Err: err}
	}
	have := pagesOf(s.at.Detail)
	for i := len(pages); i < len(have); i++ {
		pages = append(pages, message{text: "This part is no longer needed."})
	}
	for i, content := range pages {
		sum := content.sum()
		if i < len(have) {
			if s.n.Phase == notify.Resolved || have[i].sum == sum {
				continue
			}
			err := s.bot.update(ctx, s.at.Channel, have[i].ts, content, s.urgent)
			if err == nil {
				have[i].sum = sum
				s.at.Detail = spellPages(have)
				continue
			}
			if !isGone(err) && !cannotEdit(err) {
				return err
			}
		}
		landed, err := s.bot.post(ctx, s.post(s.at.Message, partDetail+strconv.Itoa(i+1)), content)
		if err != nil {
			return err
		}
		if i < len(have) {
			have[i] = page{landed.ts, sum}
		} else {
			have = append(have, page{landed.ts, sum})
		}
		s.at.Detail = spellPages(have)
	}
	return nil
}

// post says where a part of the incident goes: into the thread of a message, or
// into the channel when thread is empty.
func (s *session) post(thread, part string) target {
	t := target{channel: s.bot.channel, thread: thread, incident: s.n.Incident.ID, part: part, mayExist: s.n.Uncertain, urgent: s.urgent}
	if thread != "" {
		t.channel = s.at.Channel
	} else if s.at.Instead != "" {
		t.channel = s.bot.fallback
	} else if id := s.bot.id.Load(); id != nil {
		t.channel = *id
	}
	return t
}

// target is where a message goes and how it is found again.
type target struct {
	channel, thread string
	incident, part  string
	// mayExist says that the message may be there already.
	mayExist bool
	urgent   bool
}

// place is where a message is.
type place struct{ channel, ts string }

// metadata is the key under which Slack keeps a message for us; it survives
// edits.
type metadata struct {
	Type    string  `json:"event_type"`
	Payload payload `json:"event_payload"`
}

type payload struct {
	Incident string `json:"incident"`
	Part     string `json:"part"`
}

const metadataType = "diagnose_incident"

func (t target) metadata() metadata {
	return metadata{Type: metadataType, Payload: payload{Incident: t.incident, Part: t.part}}
}

// post posts m once, or edits it in where it is found already. Blocks that Slack
// refuses are replaced by their text.
func (b *Bot) post(ctx context.Context, t target, m message) (place, error) {
	if t.mayExist {
		found, err := b.find(ctx, t)
		if err != nil {
			return place{}, err
		}
		if found.ts != "" {
			if err = b.update(ctx, found.channel, found.ts, m, t.urgent); !cannotEdit(err) && !isGone(err) {
				return found, err
			}
		}
	}
	key, err := json.Marshal(t.metadata())
	if err != nil {
		return place{}, &notify.Error{Class: notify.Payload, Err: fmt.Errorf("encode metadata: %w", err)}
	}
	form := url.Values{
		"channel":      {t.channel},
		"metadata":     {string(key)},
		"unfurl_links": {"false"},
		"unfurl_media": {"false"},
		"mrkdwn":       {strconv.FormatBool(m.markup)},
	}
	if t.thread != "" {
		form.Set("thread_ts", t.thread)
	}
	return b.send(ctx, "chat.postMessage", form, m, b.turns.post(t.channel), t.urgent)
}

// update edits a message. Editing twice does no harm, so a lost answer is no
// unknown outcome.
func (b *Bot) update(ctx context.Context, channel, ts string, m message, urgent bool) error {
	_, err := b.send(ctx, "chat.update", url.Values{"channel": {channel}, "ts": {ts}}, m, b.turns.update, urgent)
	return err
}

// send makes the call, and once more as plain text if the payload is refused.
func (b *Bot) send(ctx context.Context, method string, form url.Values, m message, turn *pace, urgent bool) (place, error) {
	if err := turn.wait(ctx, urgent); err != nil {
		return place{}, err
	}
	form.Set("text", m.text)
	form.Set("parse", "none")
	form.Set("blocks", "[]") // an edit would otherwise keep what was there
	if len(m.blocks) > 0 {
		blocks, err := json.Marshal(m.blocks)
		if err != nil {
			return place{}, &notify.Error{Class: notify.Payload, Err: fmt.Errorf("encode blocks: %w", err)}
		}
		form.Set("blocks", string(blocks))
	}
	creates := method == "chat.postMessage"
	p, err := b.chat(ctx, method, form, creates)
	turn.heed(err)
	if err != nil && len(m.blocks) > 0 && notify.ClassOf(err) == notify.Payload && !cannotEdit(err) {
		form.Set("blocks", "[]")
		return b.chat(ctx, method, form, creates)
	}
	return p, err
}

// chat makes one call of a chat method. Only an answer that says where the
// message is counts as success. The channel in it is the ID, whatever the
// configuration says.
func (b *Bot) chat(ctx context.Context, method string, form url.Values, creates bool) (place, error) {
	var out struct {
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if err := b.api.call(ctx, method, form, creates, &out); err != nil {
		if v := classify(codeOf(err)); v.class == notify.Destination && codeOf(err) != "" {
			return place{}, named(err, form.Get("channel"))
		}
		return place{}, err
	}
	if out.TS == "" {
		return place{}, &notify.Error{Class: unlessSafe(creates), Err: fmt.Errorf("%s: answer without ts", method)}
	}
	return place{cmp.Or(out.Channel, form.Get("channel")), out.TS}, nil
}

// named adds the channel to an error about it.
func named(err error, channel string) error {
	e, ok := errors.AsType[*notify.Error](err)
	if !ok {
		return err
	}
	c := *e
	c.Err = fmt.Errorf("channel %s: %w", notify.Line(channel, 80), e.Err)
	return &c
}
