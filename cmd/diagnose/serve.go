package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newServe(std streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Take alerts from Alertmanager and report to chat",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), path, std) },
	}
	cmd.Flags().StringVar(&path, "config", "diagnose.yml", "configuration file")
	return cmd
}

// gcPercent has the memory of garbage taken back early: the agent is a guest on hosts
// that have other work, and the time that this takes is little.
const gcPercent = 50

func serve(ctx context.Context, path string, std streams) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	load := func() (*config, error) {
		c, err := loadConfig(path)
		if err != nil {
			return nil, err
		}
		return c, c.validateServe()
	}
	c, err := load()
	if err != nil {
		return err
	}
	sinks, err := newSinks(c.Notify, std.out)
	if err != nil {
		return err
	}
	logger := newLogger(std, slog.LevelInfo)
	a, err := newAgent(ctx, c, sinks, logger)
	if err != nil {
		return err
	}
	a.load = load
	a.reloadOnHangup(ctx)
	return a.run(ctx, func(address string) {
		logger.Info("ready", "webhook", "http://"+address+webhookPath, "targets", len(c.Targets), "version", version())
	})
}

// validateServe says what `serve` needs and `run` does not.
func (c *config) validateServe() error {
	var errs []error
	if !c.Store.given() {
		errs = append(errs, errors.New("store: is needed, a file such as /var/lib/diagnose/diagnose.db, or a postgres:// URL that several agents share"))
	}
	if len(c.Webhook.Tokens) == 0 {
		errs = append(errs, errors.New("webhook.tokens: is needed, as [{env: DIAGNOSE_TOKEN}]; Alertmanager sends it as authorization.credentials"))
	}
	if len(c.Notify) == 0 {
		errs = append(errs, errors.New("notify: at least one sink is needed, such as - stdout: {}"))
	}
	return errors.Join(errs...)
}
