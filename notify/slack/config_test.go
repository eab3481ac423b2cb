package slack_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
)

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	const canary = "xoxb-canary"
	token := notify.NewSecret(canary)
	for name, c := range map[string]slack.BotConfig{
		"no token":   {Channel: "C1"},
		"no channel": {Token: token},
		"no host":    {Token: token, Channel: "C1", APIURL: "slack.com/" + canary},
		"not http":   {Token: token, Channel: "C1", APIURL: "ftp://" + canary},
		"broken":     {Token: token, Channel: "C1", APIURL: "http://[" + canary},
	} {
		if _, err := slack.NewBot(c); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: error %v, want one without the secret", name, err)
		}
	}
	for _, raw := range []string{"", "hooks.slack.com/" + canary, "ftp://h/" + canary, "http://[" + canary, "https:///" + canary, "http://h/\x7f" + canary} {
		if _, err := slack.NewWebhook(slack.WebhookConfig{URL: notify.NewSecret(raw)}); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("webhook %q: error %v, want one without the secret", raw, err)
		}
	}
}

// A redirect must not pass for success: the POST would arrive as an empty GET.
func TestRedirectIsNoSuccess(t *testing.T) {
	t.Parallel()
	var gets int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			gets++
			return
		}
		http.Redirect(w, r, "/login", http.StatusFound)
	}))
	defer srv.Close()
	b, err := slack.NewBot(slack.BotConfig{Token: notify.NewSecret("xoxb"), Channel: "C1", APIURL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, b, notify.Notice{}, notify.Unknown)
	fails(t, newWebhook(t, srv.URL+"/services/x"), notify.Notice{Phase: notify.Reported}, notify.Destination)
	if gets != 0 {
		t.Errorf("the redirect was followed %d times", gets)
	}
}
