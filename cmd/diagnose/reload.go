package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/regpath/diagnose/webhook"
)

// targetLinger is how long a target that has left the configuration stays open,
// for runs that have begun: longer than any of them takes.
const targetLinger = 2 * time.Minute

// use puts a configuration in force.
func (a *agent) use(c *config, r *routing) {
	hook := webhook.Handler(a.inbox, webhook.HandlerOptions{Tokens: r.tokens})
	a.routing.Store(r)
	a.intake.Store(&hook)
	a.config = c
}

// reload reads the configuration again and puts it in force, all of it or, if
// anything is wrong with it, nothing.
func (a *agent) reload(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.tryReload(ctx)
	a.reloaded.done(err)
	if err != nil {
		a.logger.Error("new configuration refused, the old one stays in force", "err", err)
		return err
	}
	a.logger.Info("new configuration in force", "targets", len(a.config.Targets), "routes", len(a.config.Routes))
	return nil
}

func (a *agent) tryReload(ctx context.Context) error {
	if a.load == nil {
		return errors.New("there is no configuration file")
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	if err := c.restartFor(a.config); err != nil {
		return err
	}
	old := a.routing.Load()
	next, err := newRouting(c, old)
	if err != nil {
		return err
	}
	a.openTargets(ctx, next, old)
	a.use(c, next)
	lingering := context.WithoutCancel(ctx)
	a.recorders.use(lingering, next)
	time.AfterFunc(targetLinger, func() { closeTargets(lingering, old, next) })
	return nil
}

// restartFor says what is different from the configuration in force that only a
// restart can change.
func (c *config) restartFor(inForce *config) error {
	// To compare what they stand for, and not where that is kept.
	if err := resolveAll(c.secrets()); err != nil {
		return err
	}
	var fields []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"listen", c.Listen == inForce.Listen},
		{"store", c.Store.Reveal() == inForce.Store.Reveal()},
		{"alertmanagers", reflect.DeepEqual(c.Alertmanagers, inForce.Alertmanagers)},
		{"watchdog", reflect.DeepEqual(c.Watchdog, inForce.Watchdog)},
		{"notify", reflect.DeepEqual(c.Notify, inForce.Notify)},
		{"window", c.Window == inForce.Window},
		{"recorder", c.Recorder == inForce.Recorder},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	if len(fields) > 0 {
		return fmt.Errorf("%s changed: that takes a restart", strings.Join(fields, ", "))
	}
	return nil
}

// serveReload is POST /-/reload, for whoever has one of the webhook's tokens.
func (a *agent) serveReload(w http.ResponseWriter, r *http.Request) {
	webhook.Guard(a.routing.Load().tokens, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Whoever asked may leave; what has begun is brought to its end.
		if err := a.reload(context.WithoutCancel(r.Context())); err != nil {
			http.Error(w, "refused, the old configuration stays in force: "+err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})).ServeHTTP(w, r)
}

// heedSignals reloads at every SIGHUP until ctx ends. That nobody reads stdout any
// more is the trouble of one sink, and no reason to end.
func (a *agent) heedSignals(ctx context.Context) {
	signal.Ignore(syscall.SIGPIPE)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-hangups:
				_ = a.reload(ctx) // which has logged it
			case <-ctx.Done():
				return
			}
		}
	}()
}

// reloadMetrics tell whether the file on the disk is the one in force.
type reloadMetrics struct {
	successful, at prometheus.Gauge
}

func newReloadMetrics() *reloadMetrics {
	m := &reloadMetrics{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "diagnose_config_last_reload_successful", Help: "Whether the last attempt to load the configuration succeeded.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "diagnose_config_last_reload_success_timestamp_seconds", Help: "When the configuration in force was loaded, in Unix time.",
		}),
	}
	m.done(nil)
	return m
}

func (m *reloadMetrics) register(reg prometheus.Registerer) error {
	return errors.Join(reg.Register(m.successful), reg.Register(m.at))
}

func (m *reloadMetrics) done(err error) {
	if err != nil {
		m.successful.Set(0)
		return
	}
	m.successful.Set(1)
	m.at.SetToCurrentTime()
}
