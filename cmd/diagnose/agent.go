package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// webhookPath is where Alertmanager posts to.
const webhookPath = "/webhook/alertmanager"

// agent is the running service: intake, line and target, wired.
type agent struct {
	logger *slog.Logger
	target *target
	inbox  *webhook.Inbox
	server *http.Server
	listen string
}

// incidentsAtOnce is how many incidents are worked on at a time. Nearly all of
// them wait: those of one target share its runs.
const incidentsAtOnce = 64

// newAgent wires an agent; the first target of the configuration is the one
// that alerts are about. It opens the store and touches nothing else: run does.
func newAgent(ctx context.Context, c *config, sinks []sink, logger *slog.Logger) (*agent, error) {
	t, err := newTarget(c.Targets[0])
	if err != nil {
		return nil, err
	}
	var tokens []string
	for i, token := range c.Webhook.Tokens {
		if err := token.resolve(); err != nil {
			return nil, fmt.Errorf("webhook.tokens[%d]: %w", i, err)
		}
		tokens = append(tokens, token.Reveal())
	}
	byName, err := loadPlaybooks(t.catalog(), c.Playbooks)
	if err != nil {
		return nil, err
	}
	p, err := pick(byName, c.Playbook)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	); err != nil {
		return nil, err
	}
	l := &line{runs: newRuns(&playbooks.Runner{Logger: logger}), playbook: p, target: t.name, sinks: sinks, logger: logger}
	inbox, err := webhook.Open(ctx, c.Store, webhook.Options{
		Worker:   l,
		Workers:  incidentsAtOnce,
		Couriers: l.carriers(),
		Logger:   logger,
		Registry: registry,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(webhookPath, webhook.Handler(inbox, webhook.HandlerOptions{Tokens: tokens}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
	mux.HandleFunc("GET /-/healthy", ok)
	mux.HandleFunc("GET /-/ready", ok) // the store is open before the port is
	return &agent{
		logger: logger, target: t, inbox: inbox, listen: c.Listen,
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10},
	}, nil
}

// shutdownTimeout bounds an orderly stop; what is left undone then is taken up
// at the next start.
const shutdownTimeout = 15 * time.Second

// run serves until ctx ends. It calls ready with the address once it listens.
func (a *agent) run(ctx context.Context, ready func(address string)) error {
	// Requests and work that are under way are brought to their end after ctx.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	a.target.open(ctx, a.logger)
	defer a.target.close(life)

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", a.listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), a.inbox.Stop(ctx))
	}
	if err := a.inbox.Start(life); err != nil {
		return errors.Join(err, listener.Close(), a.inbox.Stop(ctx))
	}
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
	return errors.Join(failure, a.server.Shutdown(stopCtx), a.inbox.Stop(stopCtx))
}
