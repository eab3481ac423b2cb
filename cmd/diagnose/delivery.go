package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

const (
	// deliveryTimeout bounds one delivery to one sink, which may have to wait for
	// its turn among others.
	deliveryTimeout = time.Minute
	// lastWords is how long a delivery that has begun may go on while the agent
	// stops: cut short, nobody would know what became of it.
	lastWords = 3 * time.Second
	// sayMoreTimeout bounds an edit that only says what was found so far.
	sayMoreTimeout = 2 * time.Second
)

// carrier keeps one sink up to date on incidents.
type carrier struct {
	line *line
	sink sink
}

var _ webhook.Courier = (*carrier)(nil)

// memoPassedOn is who has passed an incident on to its audience.
const memoPassedOn = "passed-on"

// Carry implements webhook.Courier. Whoever has said something about the incident goes on
// to, wherever its route leads by now; who has not, and is not to, passes it on.
func (c *carrier) Carry(ctx context.Context, in playbooks.Incident, memo webhook.Memo) error {
	if !c.line.routing().of(in).tells(c.sink.name) {
		said, err := c.line.spoke(ctx, memo, c.sink.name)
		if err != nil {
			return err
		}
		if !said { // the routes are others than when this one was called
			return remember(ctx, memo, memoPassedOn, c.sink.name, c.line.audience(in.Alerts)...)
		}
	}
	n, err := c.line.notice(ctx, in, memo)
	if err != nil {
		return err
	}
	if len(n.Findings) > 0 {
		if said, err := c.sayMore(ctx, n, memo); said || err != nil {
			return err
		}
		n.Findings = nil
	}
	want, details := stamp(n), []string(nil)
	if c.edits() {
		want = editedStamp(n)
		if n.Report != nil {
			details = append(details, detailsOf(c.sink.name))
		}
	}
	receipt, err := deliver(ctx, memo, c.sink.name, want, n, c.sink.Notify, details...)
	if err != nil || receipt == nil {
		return err
	}
	if why := receipt.Instead; why != "" {
		c.line.logger.Error("delivered to the fallback channel", "incident", in.ID, "sink", c.sink.name, "why", why)
	}
	return nil
}

// edits reports whether the sink edits what it has said: as those do that have room for
// details.
func (c *carrier) edits() bool {
	_, edits := c.sink.Notifier.(notify.Detailer)
	return edits
}

// sayMore edits what was found so far into the first message, if that is there, up to
// date otherwise, and can be edited. It is worth one short attempt: the report
// follows, and must not wait.
func (c *carrier) sayMore(ctx context.Context, n notify.Notice, memo webhook.Memo) (said bool, err error) {
	if !c.edits() {
		return false, nil
	}
	key := sinkKey(c.sink.name)
	d, err := recall[delivery](ctx, memo, key)
	if err != nil || d == nil || d.Done != editedStamp(n) || d.Receipt.Message == "" {
		return false, err
	}
	n.Prior = d.Receipt
	short, cancel := context.WithTimeout(ctx, sayMoreTimeout)
	defer cancel()
	_, err = c.sink.Notify(short, n)
	if failure, ok := errors.AsType[*notify.Error](err); err == nil || ok && failure.RetryAfter > 0 {
		return true, nil // said, or not even sent
	}
	// It may still arrive, after the report: that is said twice then.
	d.Late = true
	return true, remember(ctx, memo, key, d)
}

// detailsOf is the courier for the details of a sink: they wait in a queue of
// their own, so that no first message waits behind them.
func detailsOf(name string) string { return name + "-details" }

// detailCarrier adds the details to what a carrier has said.
type detailCarrier struct {
	line     *line
	sink     sink
	detailer notify.Detailer
}

var _ webhook.Courier = (*detailCarrier)(nil)

// Carry implements webhook.Courier.
func (c *detailCarrier) Carry(ctx context.Context, in playbooks.Incident, memo webhook.Memo) error {
	n, err := c.line.notice(ctx, in, memo)
	if err != nil || n.Report == nil {
		return err
	}
	said, err := recall[delivery](ctx, memo, sinkKey(c.sink.name))
	if err != nil || said == nil || said.Receipt.Message == "" {
		return err // the carrier comes first, and sends this one then
	}
	_, err = deliver(ctx, memo, detailsOf(c.sink.name), editedStamp(n)+"/"+said.Receipt.Message, n, func(ctx context.Context, n notify.Notice) (notify.Receipt, error) {
		if n.Prior.Message != said.Receipt.Message {
			n.Prior = notify.Receipt{} // of a message that is no more
		}
		detail := n.Prior.Detail
		n.Prior = said.Receipt
		n.Prior.Detail = detail
		return c.detailer.Detail(ctx, n)
	})
	return err
}

// delivery is what the memo knows of one sink.
type delivery struct {
	// Tried is set before a notice leaves, Done after it was received: a Tried
	// without Done is an outcome that nobody knows.
	Tried   string         `json:"tried"`
	Done    string         `json:"done"`
	Receipt notify.Receipt `json:"receipt"`
	// Vain counts the attempts since one got further.
	Vain int `json:"vain,omitempty"`
	// Late says that an edit which is out of date may still arrive.
	Late bool `json:"late,omitempty"`
}

func sinkKey(name string) string { return "sink/" + name }

// deliver says n by way of say, and has the couriers that follow called, unless the
// memo knows that what is stamped want has been said; then it returns no receipt.
func deliver(ctx context.Context, memo webhook.Memo, name, want string, n notify.Notice,
	say func(context.Context, notify.Notice) (notify.Receipt, error), follow ...string,
) (*notify.Receipt, error) {
	key := sinkKey(name)
	d, err := recall[delivery](ctx, memo, key)
	if err != nil {
		return nil, err
	}
	if d == nil {
		d = &delivery{}
	}
	if d.Done == want {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err // a stopping agent begins nothing: the next one says it
	}
	n.Prior, n.Uncertain = d.Receipt, d.Tried != d.Done
	d.Tried = want
	if err := remember(ctx, memo, key, d); err != nil {
		return nil, err
	}
	receipt, err := send(ctx, n, say)
	d.Vain++
	if err == nil || receipt.Message != d.Receipt.Message || receipt.Detail != d.Receipt.Detail {
		d.Vain = 0
	}
	if receipt != (notify.Receipt{}) {
		d.Receipt = receipt // even a failed notice may have got half through
	}
	var next []string
	switch {
	case err == nil:
		d.Done = want
		next = follow
		if d.Late {
			d.Late, d.Tried, d.Done = false, "", ""
			next = append(slices.Clone(follow), name)
		}
	case notify.ClassOf(err) != notify.Unknown && !n.Uncertain:
		d.Tried = d.Done // it certainly did not arrive
	}
	// The memo outlasts ctx: what has been said must not be said again because
	// the agent was told to stop while the sink answered.
	if err := errors.Join(asWork(err, d.Vain), remember(ctx, memo, key, d, next...)); err != nil {
		return nil, err
	}
	return &d.Receipt, nil
}

// send lets the sink speak. The end of ctx grants it lastWords.
func send(ctx context.Context, n notify.Notice, say func(context.Context, notify.Notice) (notify.Receipt, error)) (notify.Receipt, error) {
	sendCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(lastWords, cancel)
		context.AfterFunc(sendCtx, func() { timer.Stop() })
	})
	defer stop()
	return say(sendCtx, n)
}

// asWork says what a failed delivery leads to: what the sink will never take is
// left undelivered until something changes; the rest is repeated, when the sink
// said so, else the later the more attempts were in vain. Many pages on a bad day
// are no reason to wait ever longer.
func asWork(err error, vain int) error {
	failure, ok := errors.AsType[*notify.Error](err)
	switch {
	case !ok:
		return err
	case failure.Class == notify.Payload || failure.Class == notify.Destination || failure.Class == notify.Auth:
		return webhook.Undeliverable(err)
	case failure.RetryAfter > 0:
		return webhook.RetryAfter(err, failure.RetryAfter)
	}
	return webhook.RetryAfter(err, webhook.Backoff(patience(vain)))
}

// patience is the step of the back-off after so many attempts in vain. A sink that
// fails now and then would have the unluckiest message wait for minutes: so for
// quickSteps the wait grows no further than a quarter of a minute, and only what fails
// after all of those is taken for an outage that lasts.
func patience(vain int) int { return max(min(vain, slowStep), vain-quickSteps) }

const (
	slowStep   = 5 // 16 seconds
	quickSteps = 8
)

// stamp tells notices apart: the same stamp need not be said twice.
func stamp(n notify.Notice) string {
	report, recovery := "", ""
	if n.Report != nil {
		report = n.Report.ID
	}
	if n.Recovery != nil {
		recovery = n.Recovery.Report
	}
	return fmt.Sprintf("%d/%d/%s/%s", n.Incident.Episode, n.Phase, report, recovery)
}

// editedStamp is stamp for a sink that edits what it has said when alerts join or end;
// any other would say all of it again.
func editedStamp(n notify.Notice) string {
	firing := 0
	for _, a := range n.Incident.Alerts {
		if a.Firing {
			firing++
		}
	}
	return fmt.Sprintf("%s/%d/%d/%d", stamp(n), len(n.Incident.Alerts), firing, n.Incident.HiddenAlerts)
}
