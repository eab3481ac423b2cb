package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/regpath/diagnose/notify"
)

// target is where a message goes and how it is found again.
type target struct {
	channel, thread string
	incident, part  string
	// mayExist says that the message may be there already.
	mayExist bool
	// reserve says that it may take from the reserve of a pace.
	reserve bool
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
			if err = b.update(ctx, found.channel, found.ts, m, t.reserve); !cannotEdit(err) && !isGone(err) {
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
	return b.send(ctx, "chat.postMessage", form, m, b.turns.post(t.channel), t.reserve)
}

// update edits a message. Editing twice does no harm, so a lost answer is no
// unknown outcome.
func (b *Bot) update(ctx context.Context, channel, ts string, m message, reserve bool) error {
	_, err := b.send(ctx, "chat.update", url.Values{"channel": {channel}, "ts": {ts}}, m, b.turns.update, reserve)
	return err
}

// send makes the call, and once more as plain text if the payload is refused.
func (b *Bot) send(ctx context.Context, method string, form url.Values, m message, turn *pace, reserve bool) (place, error) {
	if err := turn.wait(ctx, reserve); err != nil {
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
