package main

import (
	"fmt"
	"io"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/notify/text"
)

// sink is a notifier under a name that stays the same over restarts.
type sink struct {
	name string
	notify.Notifier
}

// newSinks opens the sinks of the configuration; stdout goes to out.
func newSinks(configs []notifyConfig, out io.Writer) ([]sink, error) {
	var sinks []sink
	for i, c := range configs {
		if err := resolveAll(below(at("notify", i), c.secrets())); err != nil {
			return nil, err
		}
		s, err := newSink(c, out)
		if err != nil {
			return nil, fmt.Errorf("notify[%d]: %w", i, err)
		}
		sinks = append(sinks, s)
	}
	return sinks, nil
}

func newSink(c notifyConfig, out io.Writer) (sink, error) {
	switch {
	case c.Slack != nil:
		bot, err := slack.NewBot(slack.BotConfig{
			Name: c.name(), Token: c.Slack.Token.Secret, Channel: c.Slack.Channel, Fallback: c.Slack.Fallback, APIURL: c.Slack.APIURL,
			Buttons: c.Slack.Orders != nil,
		})
		return sink{c.name(), bot}, err
	case c.SlackWebhook != nil:
		hook, err := slack.NewWebhook(slack.WebhookConfig{Name: c.name(), URL: c.SlackWebhook.URL.Secret})
		return sink{c.name(), hook}, err
	default:
		return sink{c.name(), text.New(out, notify.TextOptions{})}, nil
	}
}
