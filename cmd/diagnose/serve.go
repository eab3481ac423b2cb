package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
)

// defaultConfig is what serve reads when not told what to.
const defaultConfig = "diagnose.yml"

func newServe(std streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"server", "start", "agent"},
		Short:      "Take alerts from Alertmanager and report to chat",
		Args:       shell.Arguments(0, 0, "flags only"),
		RunE:       func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), path, std) },
	}
	cmd.Flags().StringVar(&path, "config", defaultConfig, "configuration file")
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
		return loadConfig(path, checkServe)
	}
	c, err := load()
	if errors.Is(err, fs.ErrNotExist) && path == defaultConfig {
		err = fmt.Errorf("%w; give another by --config FILE", err)
	}
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
	a.heedSignals(ctx)
	return a.run(ctx, func(address string) {
		logger.Info("ready", "webhook", "http://"+address+webhookPath, "targets", len(c.Targets), "version", version())
	})
}

// checkServe looks for what `serve` needs: more than `run`, and all that the
// configuration refers to.
func checkServe(c *config, bad complain) error {
	if !c.Store.given() {
		bad("store", "is needed", "a file such as /var/lib/diagnose/diagnose.db, or a postgres:// URL that several agents share")
	}
	if len(c.Webhook.Tokens) == 0 {
		bad("webhook.tokens", "at least one is needed", "[{env: DIAGNOSE_TOKEN}]; Alertmanager sends it as authorization.credentials")
	}
	if len(c.Notify) == 0 {
		bad("notify", "at least one sink is needed", "- stdout: {}, or Slack")
	}
	follow(c.secrets(), bad)
	return c.checkPlaybooks(bad)
}
