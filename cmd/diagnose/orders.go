package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// ordersPath is where Slack posts slash commands and the presses of buttons to.
const ordersPath = "/slack"

const (
	// orderTimeout bounds what an order leads to, the run included.
	orderTimeout = 2 * time.Minute
	// ordersAtOnce bounds the runs by hand: the target is sick enough.
	ordersAtOnce = 2
)

// orders carries out what is ordered by chat: runs, and marks on reports.
type orders struct {
	config slackConfig
	runner *playbooks.Runner
	// routing returns the one in force.
	routing func() *routing
	inbox   *webhook.Inbox
	logger  *slog.Logger

	// life ends with the agent: an order outlives its request, but not that. wg
	// counts what is under way.
	life  context.Context
	end   context.CancelFunc
	wg    sync.WaitGroup
	slots chan struct{}
}

// handler takes orders for as long as stop is not called.
func (o *orders) handler(ctx context.Context) (http.Handler, error) {
	o.life, o.end = context.WithCancel(context.WithoutCancel(ctx))
	o.slots = make(chan struct{}, ordersAtOnce)
	c := o.config.Orders
	return slack.NewCommands(slack.CommandsConfig{
		Secret: c.SigningSecret.Secret, Users: c.Users, Channels: c.Channels, Do: o.do, Logger: o.logger,
	})
}

// stop cuts off what is under way and waits for it.
func (o *orders) stop() {
	o.end()
	o.wg.Wait()
}

// do implements slack.CommandsConfig.Do.
func (o *orders) do(order slack.Order) string {
	if order.Button != "" {
		o.background(order, func(ctx context.Context) error { return o.press(ctx, order) })
		return ""
	}
	j, refusal := o.choose(order.Words)
	if refusal != "" {
		return refusal
	}
	return o.start(order, j)
}

// job is a run to make.
type job struct {
	playbook *playbooks.Playbook
	target   string
}

// choose reads "[playbook] [target]", or says what is wrong with it.
func (o *orders) choose(words []string) (_ job, refusal string) {
	r := o.routing()
	standard := r.standard()
	name, target := standard.playbook.Name, standard.target
	switch {
	case len(words) > 2:
		return job{}, "Usage: /diagnose [playbook] [target]"
	case len(words) == 2:
		name, target = words[0], words[1]
	case len(words) == 1 && r.playbooks[words[0]] != nil:
		target = words[0]
	case len(words) == 1:
		name = words[0]
	}
	there, ok := r.playbooks[target]
	if !ok {
		return job{}, fmt.Sprintf("There is no target %q: there is %s.", notify.Line(target, 80), names(r.playbooks))
	}
	p, ok := there[name]
	if !ok {
		return job{}, fmt.Sprintf("There is no playbook %q: there is %s.", notify.Line(name, 80), names(there))
	}
	return job{p, target}, ""
}

// names lists the names in a map.
func names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

// start begins a run, whose report goes to the channel it was ordered in.
func (o *orders) start(order slack.Order, j job) string {
	select {
	case o.slots <- struct{}{}:
	default:
		return fmt.Sprintf("%d runs are under way already: wait for their reports.", ordersAtOnce)
	}
	o.background(order, func(ctx context.Context) error {
		defer func() { <-o.slots }()
		return o.run(ctx, order, j)
	})
	return fmt.Sprintf("Running %s on %s: the report comes to this channel.", j.playbook.Name, j.target)
}

// background does something for an order after it was acknowledged.
func (o *orders) background(order slack.Order, do func(context.Context) error) {
	o.wg.Go(func() {
		ctx, cancel := context.WithTimeout(o.life, orderTimeout)
		defer cancel()
		if err := do(ctx); err != nil {
			o.logger.Error("chat order failed", "user", notify.Line(order.User, 40), "channel", notify.Line(order.Channel, 40), "err", err)
		}
	})
}

// bot speaks in the channel of an order.
func (o *orders) bot(channel string) (*slack.Bot, error) {
	return slack.NewBot(slack.BotConfig{
		Name: "slack-order", Token: o.config.Token.Secret, Channel: channel, APIURL: o.config.APIURL,
	})
}

func (o *orders) run(ctx context.Context, order slack.Order, j job) error {
	bot, err := o.bot(order.Channel)
	if err != nil {
		return err
	}
	n := notify.Notice{Incident: playbooks.Incident{
		ID: "order-" + strings.ToLower(rand.Text()[:12]), Trigger: "manual", Title: "/diagnose",
		Playbook: j.playbook.Name, Target: j.target, StartedAt: time.Now(),
	}}
	for _, s := range j.playbook.Steps {
		n.Checks = append(n.Checks, s.Title)
	}
	// A first message that fails is made up for by the report.
	n.Prior, err = bot.Notify(ctx, n)
	n.Uncertain = err != nil
	report := o.runner.Run(ctx, j.playbook, n.Incident)
	n.Phase, n.Report = notify.Reported, &report
	_, err = notify.All(ctx, bot, n)
	return err
}

// press does what a button says.
func (o *orders) press(ctx context.Context, order slack.Order) error {
	bot, err := o.bot(order.Channel)
	if err != nil {
		return err
	}
	text, err := o.pressed(ctx, order)
	if err != nil {
		text = "This did not work: ask whoever runs diagnose to look into its log."
	}
	return errors.Join(err, bot.Whisper(ctx, order.Channel, order.Message, order.User, text))
}

// pressed returns what to say to whoever pressed a button.
func (o *orders) pressed(ctx context.Context, order slack.Order) (string, error) {
	memo := o.inbox.Memo(order.Incident)
	switch order.Button {
	case slack.ButtonAgain:
		return o.again(ctx, order, memo)
	case slack.ButtonRight, slack.ButtonWrong:
		mark := markRight
		if order.Button == slack.ButtonWrong {
			mark = markWrong
		}
		if err := addMark(ctx, o.inbox, order.Incident, order.User, mark); err != nil {
			return "", err
		}
		return "Noted as " + string(mark) + ". Thank you.", nil
	case slack.ButtonEvidence:
	}
	s, err := recall[story](ctx, memo, memoStory)
	if err != nil {
		return "", err
	}
	if s == nil || s.Report == nil {
		return "There is no report of " + notify.Line(order.Incident, 80) + " any more.", nil
	}
	var b strings.Builder
	for _, section := range notify.Sections(*s.Report, notify.Full) {
		b.WriteString(section.Title + "\n")
		for _, item := range section.Items {
			b.WriteString("  " + item.String() + "\n")
		}
	}
	return b.String(), nil
}

// again runs once more what the report of the incident came from, as far as it
// still exists.
func (o *orders) again(ctx context.Context, order slack.Order, memo webhook.Memo) (string, error) {
	s, err := recall[story](ctx, memo, memoStory)
	if err != nil {
		return "", err
	}
	var words []string
	if s != nil && s.Report != nil {
		words = []string{s.Report.Playbook, s.Report.Target}
	}
	j, refusal := o.choose(words)
	if refusal != "" {
		return refusal, nil
	}
	return o.start(order, j), nil
}
