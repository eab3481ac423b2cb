// Package slack says notices in Slack, by one of two sinks.
//
// [Bot] uses a bot token (scopes chat:write, and channels:history or
// groups:history so that it can look for its own messages). It posts one
// message per incident, edits it as the incident goes on, and keeps the details
// in the message's thread.
//
// [Webhook] uses an incoming webhook, which can neither edit nor thread: it
// posts the report once and one line when the incident has resolved.
//
// Everything that came from outside is made harmless first by notify.Line, then
// put into plain_text objects or code blocks and escaped; see mrkdwn.go. Every
// message keeps within the limits in limits.go, and what does not fit goes to
// the thread.
//
// The Web API is called by about a hundred lines of our own, in client.go,
// rather than by slack-go's client, whose types it uses: that client takes
// {"ok":false} without an error name for success, loses the error name when
// "errors" has an unknown shape, loses the body of a 400, does not take a 429
// with an odd Retry-After for a rate limit, and does not tell a request that
// was never sent from one whose answer was lost.
package slack
