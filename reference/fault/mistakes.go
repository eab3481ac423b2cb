package fault

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	// stampedeEvery is the pause between two moments at which everything expires.
	stampedeEvery = time.Second
	// clockStep is how far the clock is set back: further than the ids will bear.
	clockStep = 90 * time.Second
	// slowFollowUp is the delay each way of the service that is posted to.
	slowFollowUp = 250 * time.Millisecond
)

// flag makes a switch out of one that tells what was set before, and records
// every change.
func (p Patient) flag(what string, set func(bool) bool) func(on bool) {
	return func(on bool) {
		p.Changed("flag", what, strconv.FormatBool(set(on)), strconv.FormatBool(on))
	}
}

// toggle is a fault that is a switch of the service's and nothing else.
func toggle(name, help string, set func(on bool)) Fault {
	return Fault{
		Name: name, Help: help,
		On:  func(context.Context) error { set(true); return nil },
		Off: func(context.Context) error { set(false); return nil },
	}
}

// cacheStampede is an avalanche: markers without jitter, and nobody who shares
// a look-up.
func cacheStampede(p Patient) Fault {
	alone := p.flag("lookups_alone", p.Service.SetLookupsAlone)
	var stop func()
	return Fault{
		Name: "cache-stampede", Help: "every entry of both caches expires at the same moment, each second, and look-ups of one name are not shared",
		On: func(ctx context.Context) error {
			if err := p.Expire(ctx); err != nil {
				return err
			}
			alone(true)
			ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
			var expiring sync.WaitGroup
			expiring.Go(func() {
				tick := time.NewTicker(stampedeEvery)
				defer tick.Stop()
				for {
					p.Service.Local.Purge()
					select {
					case <-tick.C:
					case <-ctx.Done():
						return
					}
					_ = p.Expire(ctx) // while Redis is down there is nothing to expire
				}
			})
			stop = func() {
				cancel()
				expiring.Wait()
			}
			return nil
		},
		Off: func(context.Context) error {
			alone(false)
			stop()
			return nil
		},
	}
}

// cachePenetration is what a new client looks like that goes its own way.
func cachePenetration(p Patient) Fault {
	skip, forget := p.flag("check_skips_filter", p.Service.SetSkipFilter), p.flag("free_names_uncached", p.Service.SetForgetFree)
	return toggle("cache-penetration", "checks go past the filter, and names that no shard has are not cached",
		func(on bool) { skip(on); forget(on) })
}

func trustFree(p Patient) Fault {
	return toggle("trust-free", "a registration is acknowledged because the local cache says \"free\", before the index was asked",
		p.flag("trust_cached_free", p.Service.SetTrustFree))
}

func staleMarkers(p Patient) Fault {
	return toggle("stale-markers", "no cache is told of names that become available, and goes on to say \"taken\"",
		p.flag("release_without_invalidation", p.Service.SetKeepStale))
}

func staleNegatives(p Patient) Fault {
	set := p.flag("register_without_invalidation", p.Service.SetStaleFree)
	return Fault{
		Name: "stale-negatives", Help: "no cache is told of registrations, and what Redis said of such a name, \"free\", stays for an hour",
		On: func(context.Context) error { set(true); return nil },
		Off: func(ctx context.Context) error {
			set(false)
			p.Service.Local.Purge()
			return p.Expire(ctx)
		},
	}
}

// clockRollback needs no recorded change: nobody changed the service.
func clockRollback(p Patient) Fault {
	return Fault{
		Name: "clock-rollback", Help: "the clock of the user ids is set back by " + clockStep.String() + ", further than they will bear",
		On:  func(context.Context) error { p.SetClock(-clockStep); return nil },
		Off: func(context.Context) error { p.SetClock(0); return nil },
	}
}

func syncFollowUps(p Patient) Fault {
	inline := p.flag("followups_inline", p.Service.SetFollowUpsInline)
	hook := p.Service.FollowUps
	before, closing := "", func() {}
	return Fault{
		Name: "sync-followups", Help: "a registration waits for its follow-ups, and the service that is told of it takes its time",
		On: func(context.Context) error {
			from, err := hook.SetURL("")
			if err != nil {
				return err
			}
			before = from
			to, err := url.Parse(from)
			if err == nil {
				to.Host, closing, err = p.Delay(to.Host, slowFollowUp)
			}
			if err != nil {
				_, undo := hook.SetURL(from)
				return errors.Join(err, undo)
			}
			if _, err := hook.SetURL(to.String()); err != nil {
				closing()
				return err
			}
			inline(true)
			return nil
		},
		Off: func(context.Context) error {
			inline(false)
			_, err := hook.SetURL(before)
			closing()
			return err
		},
	}
}

// stateBypass needs no recorded change: whoever goes behind the service does not
// tell it.
func stateBypass(p Patient) Fault {
	var restore func(context.Context) error
	return Fault{
		Name: "state-bypass", Help: "somebody frees names by SQL, behind the service: without an event, a cool-down, or a cache that hears of it",
		On:  func(ctx context.Context) (err error) { restore, err = p.Bypass(ctx); return err },
		Off: func(ctx context.Context) error { return restore(ctx) },
	}
}

// workerCollision needs no recorded change here: it is the other instance that
// was given a number which is not its own.
func workerCollision(p Patient) Fault {
	return running("worker-id-collision", "a second instance has the machine number of this one: both give out the same user ids", p.Twin)
}

// hotName is a fault without a mistake: everybody wants one name.
func hotName(p Patient) Fault {
	help := fmt.Sprintf("%g times a second somebody tries to register the name %q, and one shard bears it", hotPerSecond, HotName)
	return running("hot-name", help, func(ctx context.Context) (func(), error) { return p.Crowd(ctx, HotName, hotPerSecond) })
}

// running is a fault that lasts as long as something runs.
func running(name, help string, start func(context.Context) (stop func(), err error)) Fault {
	var stop func()
	return Fault{
		Name: name, Help: help,
		On:  func(ctx context.Context) (err error) { stop, err = start(context.WithoutCancel(ctx)); return err },
		Off: func(context.Context) error { stop(); return nil },
	}
}
