package slack

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
)

// How far find looks back: an attempt that may have got through is minutes old.
const (
	historyPage  = 200
	historyPages = 5
)

// find looks for the message of t by its metadata, newest first, in the channel
// or in the thread. It returns a zero place when there is none, or when looking
// is not allowed: the channel is known only by name, the bot lacks the scope.
func (b *Bot) find(ctx context.Context, t target) (place, error) {
	method, form := "conversations.history", url.Values{
		"channel":              {t.channel},
		"limit":                {strconv.Itoa(historyPage)},
		"include_all_metadata": {"true"},
	}
	if t.thread != "" {
		method = "conversations.replies"
		form.Set("ts", t.thread)
	}
	for range historyPages {
		var out struct {
			Messages []struct {
				TS string `json:"ts"`
				// Raw, as other people's metadata may have any shape.
				Metadata json.RawMessage `json:"metadata"`
			} `json:"messages"`
			More struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if err := b.api.call(ctx, method, form, false, &out); err != nil {
			if isHard(err) {
				return place{}, nil
			}
			return place{}, err
		}
		for _, m := range out.Messages {
			var found metadata
			if json.Unmarshal(m.Metadata, &found) == nil && m.TS != "" && found == t.metadata() {
				return place{t.channel, m.TS}, nil
			}
		}
		if out.More.Cursor == "" {
			break
		}
		form.Set("cursor", out.More.Cursor)
	}
	return place{}, nil
}
