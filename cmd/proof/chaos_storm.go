package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// storm sends the alerts and does the harm, both at a time; then every other group
// resolves.
func (c *chaos) storm(ctx context.Context, out io.Writer) error {
	if _, err := fmt.Fprintf(out, "%d alerts of %d groups within %s; seed %d\n", c.alerts, c.groups, c.lasts, c.seed); err != nil {
		return err
	}
	var work errgroup.Group // without a context of its own, whose end would be that of the agents, too
	work.Go(func() error { return c.fire(ctx) })
	work.Go(func() error { return c.harm(ctx, out) })
	if err := work.Wait(); err != nil {
		return err
	}
	return c.resolve(ctx)
}

// group is the name of the group of the i-th alert.
func (c *chaos) group(i int) string { return fmt.Sprintf("Chaos%04d", i%c.groups) }

// resolves tells whether the group of the i-th alert resolves in the end.
func (c *chaos) resolves(i int) bool { return i%c.groups%2 == 1 }

func (c *chaos) alert(i int, starts, ends time.Time) firedAlert {
	return firedAlert{
		Labels: map[string]string{
			"alertname": c.group(i), "instance": fmt.Sprintf("host%05d", i), "severity": "P0",
			"channel": strconv.Itoa(i % c.groups % c.channels),
		},
		Annotations: map[string]string{"summary": "checks are slow"},
		StartsAt:    starts, EndsAt: ends,
	}
}

// fire sends the alerts evenly, half a second's at a time.
func (c *chaos) fire(ctx context.Context) error {
	c.begun = time.Now()
	for sent := 0; sent < c.alerts; {
		due := min(c.alerts, int(float64(c.alerts)*float64(time.Since(c.begun))/float64(c.lasts)))
		var batch []firedAlert
		for ; sent < due; sent++ {
			batch = append(batch, c.alert(sent, c.begun, time.Time{}))
		}
		if len(batch) > 0 {
			if err := c.senders.send(ctx, batch); err != nil {
				return err
			}
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// resolve ends every other group, once all alerts were taken in: what has ended
// before anybody took it is never told by Alertmanager.
func (c *chaos) resolve(ctx context.Context) error {
	for begun := time.Now(); time.Since(begun) < c.settles; {
		rows, err := c.incidents(ctx)
		if err != nil {
			return err
		}
		taken := 0
		for _, r := range rows {
			taken += r.Alerts
		}
		if taken >= c.alerts {
			break
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	var over []firedAlert
	end := time.Now()
	for i := range c.alerts {
		if c.resolves(i) {
			over = append(over, c.alert(i, c.begun, end))
		}
	}
	return c.senders.send(ctx, over)
}

// harm kills agents at random moments, one in each part of the storm, and fills the
// store in the middle of it, when there is much to be refused.
func (c *chaos) harm(ctx context.Context, out io.Writer) error {
	begun, part := time.Now(), c.lasts/time.Duration(c.kills+1)
	for i := range c.kills + 1 {
		due := begun.Add(time.Duration((float64(i) + c.dice.Float64()) * float64(part)))
		if err := pause(ctx, time.Until(due)); err != nil {
			return err
		}
		victim := c.agents[c.dice.IntN(len(c.agents))]
		if i == (c.kills+1)/2 {
			if err := c.fill(ctx, out, victim); err != nil {
				return err
			}
			continue
		}
		if err := victim.kill(); err != nil {
			return err
		}
		if err := c.start(ctx, victim); err != nil {
			return err
		}
	}
	return nil
}

// fill has the store full until an agent has had to refuse something.
func (c *chaos) fill(ctx context.Context, out io.Writer, victim *chaosAgent) (err error) {
	room, err := c.kept.fill(ctx, victim)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, room()) }()
	for begun := time.Now(); time.Since(begun) < startup; {
		refused, err := victim.refused(ctx)
		if err != nil {
			return err
		}
		if refused > 0 {
			_, err := fmt.Fprintf(out, "the store was full for %s: %d notifications refused\n", time.Since(begun).Round(time.Millisecond), refused)
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the store was full, and nothing was refused")
}

// refused is how many notifications the agent could not store since it was
// started.
func (a *chaosAgent) refused(ctx context.Context) (int, error) {
	c := newClient(1)
	defer c.close()
	code, _, text, err := c.do(ctx, http.MethodGet, strings.Replace(a.hook, "/webhook/alertmanager", "/metrics", 1), nil, nil)
	if err != nil {
		return 0, fmt.Errorf("read the agent's metrics: %w", err)
	}
	if code != http.StatusOK {
		return 0, fmt.Errorf("read the agent's metrics: status %d", code)
	}
	_, rest, ok := strings.Cut(string(text), `diagnose_webhook_refused_total{reason="store"} `)
	if !ok {
		return 0, nil
	}
	var n int
	_, err = fmt.Sscan(rest, &n)
	return n, err
}
