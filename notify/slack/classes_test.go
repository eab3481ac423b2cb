package slack_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/notify/slack/slacktest"
)

func TestClasses(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]notify.Class{
		"ratelimited": notify.Retry, "rate_limited": notify.Retry, "request_timeout": notify.Retry, "service_unavailable": notify.Retry,
		"internal_error": notify.Unknown, "fatal_error": notify.Unknown,
		"invalid_blocks": notify.Payload, "invalid_blocks_format": notify.Payload, "msg_blocks_too_long": notify.Payload, "msg_too_long": notify.Payload, "no_text": notify.Payload,
		"too_many_attachments": notify.Payload, "attachment_payload_limit_exceeded": notify.Payload, "invalid_attachments": notify.Payload, "markdown_text_conflict": notify.Payload,
		"metadata_too_large": notify.Payload, "invalid_something_new": notify.Payload,
		"channel_not_found": notify.Destination, "not_in_channel": notify.Destination, "is_archived": notify.Destination, "restricted_action": notify.Destination, "restricted_action_read_only_channel": notify.Destination,
		"messages_tab_disabled": notify.Destination, "team_not_found": notify.Destination, "never_heard_of": notify.Destination, "message_limit_exceeded": notify.Destination,
		"invalid_auth": notify.Auth, "not_authed": notify.Auth, "account_inactive": notify.Auth, "token_revoked": notify.Auth, "token_expired": notify.Auth, "missing_scope": notify.Auth, "not_allowed_token_type": notify.Auth, "ekm_access_denied": notify.Auth,
	} {
		s := slacktest.Start(t)
		s.Script("chat.postMessage", slacktest.Fail(code), slacktest.Fail(code))
		_, e := fails(t, newBot(t, s), notify.Notice{Incident: incident()}, want)
		if !strings.Contains(e.Error(), code) {
			t.Errorf("error %q does not name %s", e.Error(), code)
		}
		if (want == notify.Auth || want == notify.Destination) && e.Hint == "" {
			t.Errorf("%s: no hint", code)
		}
	}
	for status, want := range map[int]notify.Class{400: notify.Payload, 401: notify.Auth, 403: notify.Auth, 404: notify.Destination, 405: notify.Destination, 408: notify.Unknown, 410: notify.Destination, 413: notify.Payload, 429: notify.Retry, 500: notify.Unknown, 502: notify.Unknown, 503: notify.Unknown} {
		s := slacktest.Start(t)
		f := slacktest.Status(status, "prose")
		s.Script("chat.postMessage", f, f)
		s.Script("webhook", f, f)
		s.Script("chat.update", f, f)
		n := notify.Notice{Incident: incident(), Phase: notify.Reported}
		fails(t, newWebhook(t, s.WebhookURL()), n, want)
		// The Web API names what it refuses: what has no name is not from there, but from a
		// proxy, and may pass; only a body that is too large for one will always be.
		if want != notify.Retry && status != http.StatusRequestEntityTooLarge {
			want = notify.Unknown
		}
		fails(t, newBot(t, s), n, want)
		if want == notify.Unknown {
			want = notify.Retry // editing twice does no harm
		}
		n.Prior = notify.Receipt{Channel: slacktest.ChannelID, Message: "1700000000.000001"}
		fails(t, newBot(t, s), n, want)
	}
	for name, f := range map[string]slacktest.Fault{"cut": slacktest.CutBefore(), "fatal": slacktest.Fail("fatal_error"), "html": slacktest.HTML()} {
		s := slacktest.Start(t)
		s.Script("chat.update", f)
		n := notify.Notice{Incident: incident(), Prior: notify.Receipt{Channel: slacktest.ChannelID, Message: "1700000000.000001"}}
		if _, err := newBot(t, s).Notify(t.Context(), n); notify.ClassOf(err) != notify.Retry {
			t.Errorf("%s on an edit: %v, want retry", name, err)
		}
	}
	s := slacktest.Start(t)
	s.Script("webhook", slacktest.Status(http.StatusInternalServerError, "channel_not_found"))
	fails(t, newWebhook(t, s.WebhookURL()), notify.Notice{Phase: notify.Reported}, notify.Unknown) // the status has the last word
	s.Script("chat.postMessage", slacktest.Fault{Status: http.StatusOK, Body: `{"ok":false,"error":"missing_scope","needed":"chat:write\u202e"}`})
	_, e := fails(t, newBot(t, s), notify.Notice{}, notify.Auth)
	if !strings.Contains(e.Error(), `needs chat:write\u202e`) {
		t.Errorf("error %q does not name the missing scope, harmlessly", e.Error())
	}
}

// A channel given by name is posted to, and edited and searched by the ID that
// the first answer gave.
func TestChannelByName(t *testing.T) {
	t.Parallel()
	s := slacktest.Start(t)
	b := newBot(t, s, func(c *slack.BotConfig) { c.Channel = "#" + slacktest.ChannelName })
	n := notify.Notice{Incident: incident()}
	n.Prior = must(t, b, n)
	if n.Prior.Channel != slacktest.ChannelID {
		t.Errorf("receipt names channel %q, want the ID", n.Prior.Channel)
	}
	must(t, b, n)
	n.Prior, n.Uncertain = notify.Receipt{}, true
	must(t, b, n)
	only(t, s)
}
