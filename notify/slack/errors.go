package slack

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/regpath/diagnose/notify"
)

// Waits for a rate limit.
const (
	// defaultWait is for a 429 that does not say how long in a form we can read.
	defaultWait = 30 * time.Second
	// maxWait bounds what we are told, so that a slip of the other side does
	// not silence us for a day.
	maxWait = 15 * time.Minute
	// quotaWait is for message_limit_exceeded, which passes within hours at best.
	quotaWait = time.Hour
)

// apiError is the name Slack gave to a refusal.
type apiError struct {
	method, code string
	// detail is Slack's own explanation, made harmless; often empty.
	detail string
}

func (e *apiError) Error() string {
	s := e.method + ": " + e.code
	if e.detail != "" {
		s += ": " + e.detail
	}
	return s
}

// codeOf returns the name of the refusal in err, or "".
func codeOf(err error) string {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.code
	}
	return ""
}

// verdict is what a name of Slack's means.
type verdict struct {
	class notify.Class
	hint  string
}

const (
	hintInvite  = "invite the bot to the channel, and give the channel's ID"
	hintToken   = "check the token, or the webhook's address"
	hintChannel = "choose another channel"
	hintProxy   = "is there a proxy in between?"
)

// isHard reports whether err is of a kind that no repetition mends.
func isHard(err error) bool {
	switch notify.ClassOf(err) {
	case notify.Auth, notify.Destination, notify.Payload:
		return true
	case notify.Unknown, notify.Retry:
	}
	return false
}

// classify says what a refusal by name means. A name that is not known is taken
// for a closed destination: it was a refusal, so nothing got through, repeating
// it is useless, and somebody ought to look.
func classify(code string) verdict {
	switch code {
	case "ratelimited", "rate_limited", "request_timeout", "service_unavailable", "team_added_to_org":
		return verdict{notify.Retry, ""}
	case "internal_error", "fatal_error", "rollup_error":
		return verdict{notify.Unknown, ""} // "some aspect may have succeeded"
	case "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text",
		"too_many_attachments", "attachment_payload_limit_exceeded", "invalid_attachments",
		"markdown_text_conflict", "metadata_too_large", "invalid_metadata_format", "invalid_metadata_schema",
		"invalid_payload", "invalid_arguments", "invalid_form_data", "invalid_json", "block_mismatch":
		return verdict{notify.Payload, ""}
	case "channel_not_found", "not_in_channel":
		return verdict{notify.Destination, hintInvite}
	case "is_archived", "channel_is_archived", "messages_tab_disabled", "team_not_found", "user_not_found", "no_channel", "as_user_not_supported":
		return verdict{notify.Destination, hintChannel}
	case "action_prohibited", "ekm_access_denied":
		return verdict{notify.Auth, "an administrator of the workspace has forbidden this"}
	case "no_service", "no_service_id", "no_team", "team_disabled", "no_active_hooks", "invalid_token":
		return verdict{notify.Destination, "the incoming webhook is gone or switched off: make a new one"}
	case "cannot_reply_to_message", "thread_not_found", "invalid_thread_ts", "restricted_action_thread_locked":
		return verdict{notify.Destination, "the thread is gone or locked"}
	case "message_limit_exceeded":
		return verdict{notify.Destination, "the workspace has used up its messages: upgrade its plan or use another one"}
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "org_login_required",
		"not_allowed_token_type", "no_permission", "access_denied", "two_factor_setup_required":
		return verdict{notify.Auth, hintToken}
	case "missing_scope":
		return verdict{notify.Auth, "give the app the scopes chat:write and channels:history (groups:history for private channels)"}
	}
	switch {
	case strings.HasPrefix(code, "restricted_action"):
		return verdict{notify.Destination, "posting to this channel is restricted: allow the app, or " + hintChannel}
	case strings.HasPrefix(code, "invalid_"), strings.HasSuffix(code, "_too_long"), strings.HasSuffix(code, "_too_large"):
		return verdict{notify.Payload, ""}
	}
	return verdict{notify.Destination, "look the name up in Slack's documentation of the method"}
}

// cannotEdit reports whether err says that a message is there but can no longer
// be edited by us; isGone whether there is no such message any more.
func cannotEdit(err error) bool {
	switch codeOf(err) {
	case "cant_update_message", "edit_window_closed", "is_inactive", "update_failed", "block_mismatch", "streaming_state_conflict":
		return true
	}
	return false
}

func isGone(err error) bool { return codeOf(err) == "message_not_found" }

// noThread reports whether err says that a message takes no replies.
func noThread(err error) bool {
	switch codeOf(err) {
	case "cannot_reply_to_message", "thread_not_found", "invalid_thread_ts", "restricted_action_thread_locked":
		return true
	}
	return false
}

// refused turns a refusal by name into the error for the caller.
func refused(e *apiError, h http.Header, now time.Time) *notify.Error {
	v := classify(e.code)
	out := &notify.Error{Class: v.class, Hint: v.hint, Err: e}
	switch e.code {
	case "ratelimited", "rate_limited":
		out.RetryAfter = retryAfter(h, now)
	case "message_limit_exceeded":
		out.RetryAfter = quotaWait
	}
	return out
}

// byStatus classes an answer that names no error of Slack's. creates says
// whether repeating the request could say things twice.
func byStatus(method string, status int, body string, h http.Header, creates bool, now time.Time) *notify.Error {
	err := fmt.Errorf("%s: HTTP %d", method, status)
	if body = notify.Line(body, 120); body != "" {
		err = fmt.Errorf("%w: %s", err, body)
	}
	out := &notify.Error{Err: err}
	switch {
	case status == http.StatusTooManyRequests:
		out.Class, out.RetryAfter = notify.Retry, retryAfter(h, now)
	case status >= 500, status == http.StatusRequestTimeout:
		out.Class = unlessSafe(creates)
		if h.Get("Retry-After") != "" {
			out.RetryAfter = retryAfter(h, now)
		}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		out.Class, out.Hint = notify.Auth, hintToken
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge:
		out.Class = notify.Payload
	case status >= 200 && status < 300:
		// Something answered that is not Slack, or Slack in a bad moment.
		out.Class = unlessSafe(creates)
		out.Hint = hintProxy
	default:
		out.Class, out.Hint = notify.Destination, "check the address, and whether a proxy answers in Slack's place"
	}
	return out
}

// unlessSafe is Retry where repeating is harmless and Unknown where it may say
// the same thing twice.
func unlessSafe(creates bool) notify.Class {
	if creates {
		return notify.Unknown
	}
	return notify.Retry
}

// retryAfter reads the header in every form seen in the wild: whole seconds,
// fractions, an HTTP date; anything else, and nothing at all, is defaultWait.
// The answer is between one second and maxWait.
func retryAfter(h http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(h.Get("Retry-After"))
	wait := defaultWait
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if f >= 0 && !math.IsInf(f, 0) {
			wait = time.Duration(math.Min(math.Ceil(f), maxWait.Seconds())) * time.Second
		}
	} else if t, err := http.ParseTime(s); err == nil {
		if d, err := http.ParseTime(h.Get("Date")); err == nil {
			now = d // their clock, not ours
		}
		wait = t.Sub(now)
	}
	return min(max(wait, time.Second), maxWait)
}
