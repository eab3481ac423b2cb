package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// webhookPath is where Alertmanager posts to.
const webhookPath = "/webhook/alertmanager"

// agent is the running service: intake, line and targets, wired.
type agent struct {
	logger *slog.Logger
	inbox  *webhook.Inbox
	server *http.Server
	listen string
	// load reads the configuration again; nil where there is no file of it.
	load func() (*config, error)

	// mu is held while a configuration is put in force; config is that one.
	mu     sync.Mutex
	config *config
	// routing and intake are those of config.
	routing  atomic.Pointer[routing]
	intake   atomic.Pointer[http.Handler]
	reloaded *reloadMetrics
	// orders is nil when none are taken.
	orders *orders
	// recorders record the targets of config.
	recorders *recorders
}

// incidentsAtOnce is how many incidents are worked on at a time. Nearly all of
// them wait: those of one target share its runs.
const incidentsAtOnce = 64

// newAgent wires an agent. It opens the store and touches nothing else: run does.
func newAgent(ctx context.Context, c *config, sinks []sink, logger *slog.Logger) (*agent, error) {
	r, err := newRouting(c, nil)
	if err != nil {
		return nil, err
	}
	registry, ran := prometheus.NewRegistry(), newRunMetrics()
	a := &agent{logger: logger, listen: c.Listen, config: c, reloaded: newReloadMetrics(), recorders: newRecorders(c.Recorder)}
	a.routing.Store(r)
	if err := errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		a.reloaded.register(registry),
		a.recorders.register(registry),
		ran.register(registry),
	); err != nil {
		return nil, err
	}
	runner := &playbooks.Runner{Logger: logger, Window: c.Window, Recorder: a.recorders.of}
	runs := newRuns(runner)
	runs.run = ran.around(runs.run)
	l := &line{runs: runs, routing: a.routing.Load, sinks: sinks, logger: logger}
	life := context.WithoutCancel(ctx)
	runner.Progress = func(in playbooks.Incident, soFar []playbooks.Finding) {
		l.progress(life, in, a.inbox.Memo(in.ID), soFar)
	}
	if err := c.Store.resolve(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	senders, err := c.senders()
	if err != nil {
		return nil, err
	}
	watchdog, err := c.watchdog()
	if err != nil {
		return nil, err
	}
	a.inbox, err = webhook.Open(ctx, c.Store.Reveal(), webhook.Options{
		Worker:    l,
		Workers:   incidentsAtOnce,
		Urgent:    func(severity string) bool { return a.routing.Load().urgent(severity) },
		Couriers:  l.carriers(),
		Audience:  l.audience,
		Followers: l.detailCarriers(),
		Senders:   senders,
		Watchdog:  watchdog,
		Logger:    logger,
		Registry:  registry,
	})
	if err != nil {
		return nil, err
	}
	a.use(c, r)
	mux := http.NewServeMux()
	mux.HandleFunc(webhookPath, func(w http.ResponseWriter, r *http.Request) { (*a.intake.Load()).ServeHTTP(w, r) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// What the store cannot tell must not hide the rest.
		ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /-/ready", a.serveReady)
	mux.HandleFunc("POST /-/reload", a.serveReload)
	if err := a.takeOrders(ctx, mux); err != nil {
		return nil, errors.Join(err, a.inbox.Stop(ctx))
	}
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	return a, nil
}

// takeOrders lets people order by chat, if the configuration says so.
func (a *agent) takeOrders(ctx context.Context, mux *http.ServeMux) error {
	for _, n := range a.config.Notify {
		if n.Slack == nil || n.Slack.Orders == nil {
			continue
		}
		o := &orders{config: *n.Slack, runner: &playbooks.Runner{Logger: a.logger}, routing: a.routing.Load, inbox: a.inbox, logger: a.logger}
		h, err := o.handler(ctx)
		if err != nil {
			return err
		}
		mux.Handle(ordersPath, h)
		a.orders = o
	}
	return nil
}

// serveReady answers 200 if the next alert could be stored, and else 503.
func (a *agent) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := a.inbox.Ready(r.Context()); err != nil {
		a.logger.Warn("not ready", "err", err)
		http.Error(w, "not ready: an alert could not be stored now; the log says why", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

const (
	// shutdownTimeout bounds an orderly stop; what is left undone then is taken up
	// at the next start.
	shutdownTimeout = 15 * time.Second
	// requestsTimeout is the part of it that is for requests under way: the work
	// needs the rest.
	requestsTimeout = 3 * time.Second
)

// run serves until ctx ends. It calls ready with the address once it listens.
func (a *agent) run(ctx context.Context, ready func(address string)) error {
	// Requests and work that are under way are brought to their end after ctx.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	a.openTargets(ctx, a.routing.Load(), nil)
	defer func() { closeTargets(life, a.routing.Load(), nil) }()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", a.listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), a.inbox.Stop(ctx))
	}
	if err := a.inbox.Start(life); err != nil {
		return errors.Join(err, listener.Close(), a.inbox.Stop(ctx))
	}
	a.recorders.use(life, a.routing.Load())
	defer a.recorders.stop()
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(listener) }()
	ready(listener.Addr().String())

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-served:
	}
	stopCtx, stop := context.WithTimeout(life, shutdownTimeout)
	defer stop()
	failure = errors.Join(failure, a.shutdown(stopCtx))
	if a.orders != nil {
		a.orders.stop() // before the inbox, in which it keeps marks
	}
	return errors.Join(failure, a.inbox.Stop(stopCtx))
}

// shutdown lets the requests under way end, for a while.
func (a *agent) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestsTimeout)
	defer cancel()
	err := a.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return a.server.Close() // who sends so slowly repeats it
	}
	return err
}

// openTargets opens the targets that old, which may be nil, does not have.
func (a *agent) openTargets(ctx context.Context, r, old *routing) {
	var wg sync.WaitGroup
	for name, t := range r.targets {
		if old == nil || old.targets[name] != t {
			wg.Go(func() { t.open(ctx, a.logger) })
		}
	}
	wg.Wait()
}

// closeTargets closes the targets that next, which may be nil, does not have.
func closeTargets(ctx context.Context, r, next *routing) {
	for name, t := range r.targets {
		if next == nil || next.targets[name] != t {
			t.close(ctx)
		}
	}
}
