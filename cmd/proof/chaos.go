package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/reference/local"
)

// chaos proves that nothing is lost and nothing is said twice: a pair of real
// Alertmanagers posts to agents that are killed again and again and whose store is
// full for a while, and which report to a Slack where a third of all calls fail.
// In the end there is one message for each group of alerts, in its final state.
type chaos struct {
	binary          string
	store           string
	alerts, groups  int
	lasts, settles  time.Duration
	kills, channels int
	seed            uint64
	verbose         bool
	dice            *rand.Rand
	dir             string
	begun           time.Time
	fake            *slacktest.Server
	senders         *alertmanagers
	kept            *chaosStore
	agents          []*chaosAgent
}

// chaosAgent is an agent that is started again and again.
type chaosAgent struct {
	*agent
	config string
}

func newChaos() *cobra.Command {
	c := chaos{}
	cmd := suite("chaos", "Let alerts in while agents are killed, the store is full and Slack fails, and count what is lost or said twice", c.run)
	fs := cmd.Flags()
	fs.StringVar(&c.binary, "diagnose", "", "the binary to prove (default the one beside this)")
	fs.StringVar(&c.store, "store", "sqlite", "sqlite, with one agent, or postgres, with two")
	fs.IntVar(&c.alerts, "alerts", 10_000, "different alerts to send")
	fs.IntVar(&c.groups, "groups", 200, "groups of alerts; every other one resolves in the end")
	fs.DurationVar(&c.lasts, "for", time.Minute, "time over which alerts are sent and agents killed")
	fs.DurationVar(&c.settles, "settle", 15*time.Minute, "time to wait at most for the last detail in the last thread")
	fs.IntVar(&c.kills, "kills", 12, "how often an agent is killed")
	fs.IntVar(&c.channels, "channels", 10, "channels over which the groups are spread: each takes a message a second")
	fs.Uint64Var(&c.seed, "seed", 1, "makes the same choices again")
	fs.BoolVar(&c.verbose, "verbose", false, "show what the agents log")
	return cmd
}

func (c *chaos) run(ctx context.Context, out io.Writer) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	c.dice = rand.New(rand.NewPCG(c.seed, c.seed))
	if c.dir, err = os.MkdirTemp("", "diagnose-chaos-"); err != nil {
		return fmt.Errorf("make a folder for the store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	target, err := local.Start(ctx, local.Options{Names: 1000})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if c.kept, err = c.openStore(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.kept.close()) }()
	var stop func()
	if c.fake, stop, err = slacktest.Serve(ctx); err != nil {
		return err
	}
	defer stop()
	c.haunt()
	if err := c.startAgents(ctx, target.URL); err != nil {
		return errors.Join(err, c.stopAgents())
	}
	defer func() { err = errors.Join(err, c.stopAgents()) }()
	hooks := make([]string, len(c.agents))
	for i, a := range c.agents {
		hooks[i] = a.hook
	}
	if c.senders, err = startAlertmanagers(ctx, c.dir, hooks); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.senders.stop()) }()
	if err := c.storm(ctx, out); err != nil {
		return err
	}
	return c.judge(ctx, out)
}

func (c *chaos) validate() (err error) {
	switch {
	case c.store != "sqlite" && c.store != "postgres":
		return fmt.Errorf("--store: want sqlite or postgres, got %q", c.store)
	case c.groups < 1 || c.alerts < 2*c.groups:
		return errors.New("want at least two alerts in each group")
	case c.channels < 1 || c.kills < 0:
		return errors.New("want at least one channel, and no negative number of kills")
	}
	c.binary, err = beside(c.binary, "diagnose")
	return err
}

// haunt has Slack keep its limits, and a third of its calls fail in every way
// there is.
func (c *chaos) haunt() {
	for i := range c.channels {
		c.fake.AddChannel(channelID(i), fmt.Sprint("incidents-", i), true)
	}
	c.fake.LimitBurst(time.Second, slackBurst)
	dice := rand.New(rand.NewPCG(c.seed, 2))
	faults := []slacktest.Fault{
		slacktest.RateLimited("1"), slacktest.Status(500, "oops"), slacktest.CutBefore(), slacktest.CutAfter(),
		slacktest.HangBefore(), slacktest.HangAfter(),
	}
	c.fake.Haunt(func(string) (slacktest.Fault, bool) {
		return faults[dice.IntN(len(faults))], dice.IntN(3) == 0
	})
}

func channelID(i int) string { return fmt.Sprintf("C0CHAOS%02d", i) }

// chaosPlaybook is quick and easy on the target: this is not about diagnosing.
const chaosPlaybook = `
name: chaos
title: The filter
timeout: 10s
steps:
  - id: bloom
    title: Bloom filter
    probe: bloom
    rules:
      - {status: critical, when: bloom.fill_ratio > 0.9, because: it is nearly full, summary: "{bloom.fill_ratio} full."}
      - {status: ok, summary: "{bloom.fill_ratio} full."}
causes:
  - id: filter-full
    title: The filter is full
    layer: bloom
    summary: The filter is {bloom.fill_ratio} full.
    when: [bloom.fill_ratio > 0.9]
    actions: [Make it larger.]
    source: a proof needs a cause
`

// startAgents starts them with one configuration but for the address, which each
// keeps when it is started again.
func (c *chaos) startAgents(ctx context.Context, target string) error {
	playbook := filepath.Join(c.dir, "chaos.yaml")
	if err := os.WriteFile(playbook, []byte(chaosPlaybook), 0o600); err != nil {
		return fmt.Errorf("write the playbook: %w", err)
	}
	for i := range c.kept.agents {
		address, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		a := &chaosAgent{config: filepath.Join(c.dir, fmt.Sprintf("diagnose-%d.yml", i))}
		if err := os.WriteFile(a.config, []byte(c.config(address, playbook, target)), 0o600); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		c.agents = append(c.agents, a)
		if err := c.start(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (c *chaos) openStore(ctx context.Context) (*chaosStore, error) {
	if c.store == "postgres" {
		return postgresStore(ctx)
	}
	return sqliteStore(c.dir), nil
}

// config routes every group to the channel that its alerts name.
func (c *chaos) config(address, playbook, target string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %q\nstore: %q\nwebhook: {tokens: [%q]}\n", address, c.kept.where, agentToken)
	fmt.Fprintf(&b, "targets: [{name: registration, checker: {url: %q}}]\nplaybooks: [%q]\nplaybook: chaos\nnotify:\n", target, playbook)
	for i := range c.channels {
		fmt.Fprintf(&b, "  - slack: {name: chat-%d, token: %q, channel: %q, api_url: %q}\n", i, slacktest.Token, channelID(i), c.fake.APIURL())
	}
	b.WriteString("routes:\n")
	for i := range c.channels {
		fmt.Fprintf(&b, "  - {matchers: ['channel=\"%d\"'], notify: [chat-%d]}\n", i, i)
	}
	return b.String()
}

func (c *chaos) start(ctx context.Context, a *chaosAgent) (err error) {
	a.agent, err = startAgent(ctx, c.binary, a.config, shown(c.verbose))
	return err
}

func (c *chaos) stopAgents() error {
	var errs []error
	for _, a := range c.agents {
		if a.agent != nil {
			errs = append(errs, a.stop())
		}
	}
	return errors.Join(errs...)
}
