package slack

import (
	"context"
	"net/url"
)

// Whisper says something in a channel that only one user sees, in the thread of
// a message if one is given.
func (b *Bot) Whisper(ctx context.Context, channel, thread, user, text string) error {
	form := url.Values{"channel": {channel}, "user": {user}, "text": {clip(defuse(text), maxText)}, "parse": {"none"}, "mrkdwn": {"false"}}
	if thread != "" {
		form.Set("thread_ts", thread)
	}
	return b.api.call(ctx, "chat.postEphemeral", form, true, &struct{}{})
}
