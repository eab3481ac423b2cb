package slacktest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Whisper is what only one user sees.
type Whisper struct{ Channel, ThreadTS, User, Text string }

// Whispers returns what was said to single users, in order.
func (s *Server) Whispers() []Whisper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.whispers)
}

// SlashCommand is the form that Slack posts when a user types a command.
func SlashCommand(user, channel, command, text string) url.Values {
	return url.Values{
		"command": {command}, "text": {text}, "user_id": {user}, "channel_id": {channel}, "team_id": {"T0FAKE"},
		"trigger_id": {"1.2.3"}, "response_url": {"https://hooks.slack.com/commands/T0FAKE/1/x"},
	}
}

// Press is the form that Slack posts when a user presses a button of a message.
func Press(user string, m Message, action, value string) (url.Values, error) {
	payload, err := json.Marshal(map[string]any{
		"type": "block_actions", "user": map[string]string{"id": user}, "channel": map[string]string{"id": m.Channel},
		"container": map[string]string{"type": "message", "channel_id": m.Channel, "message_ts": m.TS},
		"message":   map[string]string{"type": "message", "ts": m.TS},
		"actions":   []map[string]string{{"type": "button", "action_id": action, "value": value, "block_id": "b", "action_ts": "1.0"}},
	})
	return url.Values{"payload": {string(payload)}}, err
}

// Signed is a request as Slack makes it at a time, signed with the app's secret:
// version, time and body, joined by colons.
func Signed(ctx context.Context, to, secret string, form url.Values, at time.Time) (*http.Request, error) {
	body := form.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + stamp + ":" + body))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Slack-Request-Timestamp", stamp)
	req.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	return req, nil
}
