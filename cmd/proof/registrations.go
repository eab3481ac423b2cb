package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// registrations is the campaign that proves what a user may rely on: a name has
// one owner, a registration that was acknowledged is seen, told of once, and
// known to every filter, although an instance and Redis die on the way.
type registrations struct {
	checker   string
	names     int
	workers   int
	instances int
	races     float64
	redisDown time.Duration
	catchUp   time.Duration
	limit     time.Duration
	seed      uint64
}

func newRegistrations() *cobra.Command {
	r := registrations{}
	cmd := suite("registrations", "Register names at several instances, kill one and Redis, and count what is wrong", r.run)
	fs := cmd.Flags()
	fs.StringVar(&r.checker, "checker", "", "the binary to prove (default the one beside this)")
	fs.IntVar(&r.names, "names", 200_000, "names to register")
	fs.IntVar(&r.workers, "workers", 64, "names that are registered at a time")
	fs.IntVar(&r.instances, "instances", 3, "checkers, each a process of its own; one is killed")
	fs.Float64Var(&r.races, "races", 0.1, "share of names that two instances are asked for at the same time")
	fs.DurationVar(&r.redisDown, "redis-down", 2*time.Second, "how long Redis is dead")
	fs.DurationVar(&r.catchUp, "catch-up", time.Minute, "how long the filters of other instances may take to know every name at the end")
	fs.DurationVar(&r.limit, "limit", 15*time.Minute, "end everything after this long")
	fs.Uint64Var(&r.seed, "seed", uint64(time.Now().UnixNano()), "what is raced and where")
	return cmd
}

// name is the i-th name to register.
func (r *registrations) name(i int) string { return "proof" + strconv.Itoa(i) }

func (r *registrations) run(ctx context.Context, out io.Writer) (err error) {
	if r.checker, err = beside(r.checker, "checker"); err != nil {
		return err
	}
	if r.instances < 2 || r.names < 1 || r.workers < 1 {
		return errors.New("a campaign needs two instances, a name and a worker at least")
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	f, err := startFleet(ctx, r.checker, r.instances, uint64(r.names)*3/2, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()

	c := newCampaign(f, r.workers)
	defer c.close()
	started := time.Now()
	if err := r.registerAll(ctx, c, out); err != nil {
		return err
	}
	took := time.Since(started)
	if _, err := fmt.Fprintf(out, "registered in %s\n", took.Round(time.Millisecond)); err != nil {
		return err
	}
	v, err := r.judge(ctx, c, out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "names=%d acknowledged=%d unacknowledged=%d raced=%d retries=%d checks=%d unanswered=%d said_free=%d "+
		"owners_wrong=%d events_wrong=%d filter_missing=%d filters_converged_seconds=%.1f instances=%d killed=1 redis_killed=1 seconds=%.1f per_second=%.0f\n",
		r.names, v.acknowledged, v.unacknowledged, c.raced.Load(), c.retries.Load(), c.checks.Load(), c.unanswered.Load(), c.saidFree.Load(),
		v.owners, v.events, v.missing, v.converging.Seconds(), r.instances, took.Seconds(), float64(v.acknowledged)/took.Seconds())
	if err != nil {
		return err
	}
	if wrong := v.owners + v.events + v.missing + int(c.saidFree.Load()); wrong > 0 {
		return fmt.Errorf("%d promises were broken", wrong)
	}
	return nil
}

// registerAll registers every name, and kills what is to be killed when a third
// and two thirds of the names are through.
func (r *registrations) registerAll(ctx context.Context, c *campaign, out io.Writer) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	third := make(chan struct{})
	twoThirds := make(chan struct{})
	for w := range r.workers {
		group.Go(func() error {
			dice := rand.New(rand.NewPCG(r.seed, uint64(w)))
			for {
				i := int(next.Add(1)) - 1
				switch i {
				case r.names / 3:
					close(third)
				case r.names * 2 / 3:
					close(twoThirds)
				}
				if i >= r.names {
					return nil
				}
				if err := c.name(ctx, dice, r.name(i), dice.Float64() < r.races); err != nil {
					return err
				}
			}
		})
	}
	group.Go(func() error {
		for _, blow := range []struct {
			at   <-chan struct{}
			what string
			do   func() error
		}{
			{third, "killed an instance", c.fleet.instances[r.instances-1].kill},
			{twoThirds, "killed Redis, which came back empty", func() error { return c.fleet.crashRedis(ctx, r.redisDown) }},
		} {
			select {
			case <-blow.at:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := blow.do(); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "%s after about %d names\n", blow.what, next.Load()); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// campaign is the users: what they did and what they were told.
type campaign struct {
	fleet *fleet
	users *client

	mu  sync.Mutex
	own map[string][]string // acknowledged: name to the ids of the users that were told it is theirs

	raced, retries, checks, unanswered, saidFree atomic.Int64
}

func newCampaign(f *fleet, workers int) *campaign {
	return &campaign{fleet: f, users: newClient(2 * workers), own: map[string][]string{}}
}

func (c *campaign) close() { c.users.close() }

// name has one user, or two at the same time at different instances, register.
func (c *campaign) name(ctx context.Context, dice *rand.Rand, n string, race bool) error {
	first, then := dice.IntN(len(c.fleet.instances)), dice.IntN(len(c.fleet.instances))
	if !race {
		return c.user(ctx, n, first, then)
	}
	c.raced.Add(1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.user(ctx, n, first, then) })
	group.Go(func() error { return c.user(ctx, n, first+1, then) })
	return group.Wait()
}

const (
	// attempts is how often a user asks again after an error; the pauses add up to far more than Redis is dead.
	attempts   = 100
	retryAfter = 100 * time.Millisecond
)

// user registers the name at the instance at, tries again after an error, at
// the next instance, and, once the name is his, checks it at once at another.
func (c *campaign) user(ctx context.Context, n string, at, then int) error {
	for range attempts {
		answer, err := c.users.register(ctx, c.fleet.alive(at).url, n)
		switch {
		case err != nil:
			c.retries.Add(1)
			at++
			if err := pause(ctx, retryAfter); err != nil {
				return err
			}
			continue
		case answer.taken:
			return nil
		}
		c.mu.Lock()
		c.own[n] = append(c.own[n], answer.userID)
		c.mu.Unlock()
		return c.check(ctx, n, then, answer)
	}
	return fmt.Errorf("%s could not be registered in %d attempts", n, attempts)
}

// check asks the instance for a name that the user was told is his.
func (c *campaign) check(ctx context.Context, n string, at int, answer registered) error {
	c.checks.Add(1)
	for range attempts {
		available, err := c.users.check(ctx, c.fleet.alive(at).url, n, answer)
		if err == nil {
			if available {
				c.saidFree.Add(1)
			}
			return nil
		}
		c.unanswered.Add(1)
		at++
		if err := pause(ctx, retryAfter); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s could not be checked in %d attempts", n, attempts)
}
