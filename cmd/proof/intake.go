package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// intake is an agent whose target is slow.
type intake struct {
	*agent
	target *http.Server
}

// slowTarget is what every answer of the target takes.
const slowTarget = 2 * time.Second

// startIntake runs the agent with a store at that path, and returns once it takes
// notifications in.
func startIntake(ctx context.Context, binary, store string, log io.Writer) (*intake, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a slow target: %w", err)
	}
	a := &intake{target: &http.Server{ReadHeaderTimeout: startup, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = pause(r.Context(), slowTarget)
		http.NotFound(w, r)
	})}}
	go func() { _ = a.target.Serve(listener) }() // until stop
	config := filepath.Join(filepath.Dir(store), "diagnose.yml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nstore: %q\nwebhook: {tokens: [%q]}\ntargets: [{name: slow, checker: {url: \"http://%s\"}}]\nnotify: [{stdout: {}}]\n",
		store, agentToken, listener.Addr())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the configuration: %w", err), a.target.Close())
	}
	if a.agent, err = startAgent(ctx, binary, config, log); err != nil {
		return nil, errors.Join(err, a.target.Close())
	}
	return a, nil
}

// peakMemory is the most that the agent ever had resident, in bytes.
func (a *intake) peakMemory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the agent's memory: %w", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("read the agent's memory: no VmHWM in its status")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// stop ends agent and target.
func (a *intake) stop() error {
	return errors.Join(a.target.Close(), a.agent.stop())
}

// keptIncidents are the alerts that are in a store, by title of the incident, and
// how many incidents have that title.
type keptIncidents map[string]struct{ alerts, incidents int }

// countKept looks into the store of an agent that is dead, as the next one would.
func countKept(ctx context.Context, store string) (_ keptIncidents, err error) {
	in, err := webhook.Open(ctx, store, webhook.Options{Worker: nobody{}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Stop(ctx)) }()
	rows, err := in.List(ctx, webhook.Filter{Limit: 1 << 20})
	if err != nil {
		return nil, err
	}
	kept := keptIncidents{}
	for _, r := range rows {
		k := kept[r.Title]
		k.alerts += r.Alerts
		k.incidents++
		kept[r.Title] = k
	}
	return kept, nil
}

// compare counts what was promised, as group/alert, and is not kept, and the
// groups with more than one incident.
func (kept keptIncidents) compare(promised map[string]bool) (lost, doubled int) {
	want := map[string]int{}
	for p := range promised {
		group, _, _ := strings.Cut(p, "/")
		want[group]++
	}
	for group, n := range want {
		lost += max(0, n-kept[group].alerts)
		if kept[group].incidents > 1 {
			doubled++
		}
	}
	return lost, doubled
}

// nobody does no work: the store is only looked into.
type nobody struct{}

// Work implements webhook.Worker.
func (nobody) Work(context.Context, playbooks.Incident, webhook.Memo) error {
	return errors.New("there is no work here")
}
