package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

// burst proves that the intake keeps up with a storm and loses nothing: it posts
// notifications as fast as they are answered to the shipped binary, kills that
// with SIGKILL after the last answer, and looks into the store. Meanwhile every
// request of the agent to its target takes seconds, which must not show.
type burst struct {
	binary                        string
	webhooks, groups, connections int
	verbose                       bool
}

func newBurst() *cobra.Command {
	b := burst{}
	cmd := suite("burst", "Post notifications as fast as they are answered, kill the agent, and count what it kept", b.run)
	fs := cmd.Flags()
	fs.StringVar(&b.binary, "diagnose", "", "the binary to prove (default the one beside this)")
	fs.IntVar(&b.webhooks, "webhooks", 10_000, "notifications to post: half bring a new alert, a tenth come from the peer, the rest are repeated")
	fs.IntVar(&b.groups, "groups", 200, "groups of alerts")
	fs.IntVar(&b.connections, "connections", 16, "connections to post over")
	fs.BoolVar(&b.verbose, "verbose", false, "show what the agent logs")
	return cmd
}

// The goals on two cores; nothing may be lost or doubled, whatever the machine.
const (
	burstRate   = 2000 // answers a second
	burstP99    = 60 * time.Millisecond
	burstMemory = 64 << 20 // bytes
)

func (b *burst) run(ctx context.Context, out io.Writer) (err error) {
	if b.binary, err = beside(b.binary, "diagnose"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "diagnose-burst-")
	if err != nil {
		return fmt.Errorf("make a folder for the store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store := filepath.Join(dir, "diagnose.db")
	a, err := startIntake(ctx, b.binary, store, shown(b.verbose))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()

	result := b.post(ctx, a.hook)
	if err := ctx.Err(); err != nil {
		return err
	}
	storm := b.storm(ctx, a.hook)
	memory, err := a.peakMemory()
	if err != nil {
		return err
	}
	if err := a.kill(); err != nil {
		return err
	}
	kept, err := countKept(ctx, store)
	if err != nil {
		return err
	}
	used := a.used() / time.Duration(b.webhooks)
	return result.judge(out, b, kept, memory, used, storm)
}

// burstResult is what became of the notifications.
type burstResult struct {
	took    time.Duration
	answers []time.Duration // to what was answered 2xx at last
	// promised are the alerts that were answered 2xx, by group and name.
	promised map[string]bool
	refused  int // answers that were not 2xx
	failed   []error
}

// post posts all notifications and waits for the answers.
func (b *burst) post(ctx context.Context, hook string) burstResult {
	r := burstResult{promised: map[string]bool{}}
	var mu sync.Mutex
	var next atomic.Int64
	client := newClient(b.connections)
	defer client.close()
	begun := time.Now()
	var wg sync.WaitGroup
	for range b.connections {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.webhooks || ctx.Err() != nil {
					return
				}
				group, alert, body := b.notification(i, begun)
				asked := time.Now()
				refused, err := post(ctx, client, hook, body)
				took := time.Since(asked)
				mu.Lock()
				r.refused += refused
				if err != nil {
					r.failed = append(r.failed, err)
				} else {
					r.answers = append(r.answers, took)
					r.promised[group+"/"+alert] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	r.took = time.Since(begun)
	return r
}

// notification is the i-th one: of ten, five bring a new alert, four repeat one
// that was sent lately, and one is the peer's version of such a one.
func (b *burst) notification(i int, begun time.Time) (group, alert, body string) {
	n := i/10*5 + min(i%10, 4) // how many new ones there were
	peer, start := "a", begun
	if i%10 >= 5 {
		n = max(0, n-i%10*3)
	}
	if i%10 == 9 {
		peer, start = "b", begun.Add(3*time.Millisecond)
	}
	group, alert = fmt.Sprintf("g%03d", n%b.groups), fmt.Sprintf("i%04d", n/b.groups)
	severity := "warning"
	if n%b.groups%4 == 0 {
		severity = "P0"
	}
	return group, alert, fmt.Sprintf(`{"receiver":"diagnose","status":"firing","alerts":[{"status":"firing",`+
		`"labels":{"alertname":%[1]q,"instance":%[2]q,"severity":%[3]q},"annotations":{"summary":"%[2]s is slow"},`+
		`"startsAt":%[4]q,"endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://prometheus/graph"}],"groupLabels":{"alertname":%[1]q},`+
		`"commonLabels":{"alertname":%[1]q},"commonAnnotations":{},"externalURL":"http://alertmanager-%[5]s:9093","version":"4",`+
		`"groupKey":"{}:{alertname=\"%[1]s\"}","truncatedAlerts":0}`, group, alert, severity, start.UTC().Format(time.RFC3339Nano), peer)
}

// storm posts one notification of 5,000 alerts; nil means that it was taken.
func (b *burst) storm(ctx context.Context, hook string) error {
	alerts := make([]string, 5000)
	for i := range alerts {
		alerts[i] = fmt.Sprintf(`{"status":"firing","labels":{"alertname":"Storm","instance":"i%d"},"startsAt":"2026-01-01T00:00:00Z"}`, i)
	}
	client := newClient(1)
	defer client.close()
	_, err := post(ctx, client, hook, `{"version":"4","groupKey":"storm","receiver":"diagnose","alerts":[`+strings.Join(alerts, ",")+`]}`)
	return err
}

// post posts one notification as Alertmanager does: a refusal of the kind "come
// again" is followed. It returns how many there were.
func post(ctx context.Context, c *client, hook, body string) (refused int, err error) {
	header := http.Header{"Authorization": {"Bearer " + agentToken}}
	for {
		code, _, err := c.send(ctx, http.MethodPost, hook, []byte(body), header, &struct{}{})
		switch {
		case err == nil && code == http.StatusOK:
			return refused, nil
		case err == nil && code != http.StatusServiceUnavailable:
			return refused, fmt.Errorf("answered %d", code)
		case refused == 20:
			return refused, fmt.Errorf("refused %d times: %d, %w", refused, code, err)
		}
		refused++
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return refused, err
		}
	}
}

// judge prints the figures and says what is wrong with them. The agent's CPU time tells
// two machines apart, and a busy machine from a slow agent.
func (r *burstResult) judge(out io.Writer, b *burst, kept keptIncidents, memory int64, used time.Duration, storm error) error {
	if len(r.answers) == 0 {
		return fmt.Errorf("nothing was taken in: %w", errors.Join(r.failed...))
	}
	slices.Sort(r.answers)
	at := func(p int) time.Duration { return percentile(r.answers, p) }
	rate := float64(len(r.answers)) / r.took.Seconds()
	lost, doubled := kept.compare(r.promised)
	if _, err := fmt.Fprintf(out, "webhooks=%d groups=%d connections=%d rate=%.0f/s p50=%s p99=%s worst=%s cpu=%s/webhook peak_memory=%dMiB refused=%d failed=%d lost=%d doubled=%d\n",
		b.webhooks, b.groups, b.connections, rate, at(50).Round(10*time.Microsecond), at(99).Round(10*time.Microsecond),
		at(100).Round(10*time.Microsecond), used.Round(time.Microsecond), memory>>20, r.refused, len(r.failed), lost, doubled); err != nil {
		return err
	}
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(lost > 0, "%d alerts that were answered 2xx are not in the store", lost)
	bad(doubled > 0, "%d groups have more than one incident", doubled)
	bad(len(r.failed) > 0, "%d notifications failed, the first: %w", len(r.failed), errors.Join(r.failed[:min(1, len(r.failed))]...))
	bad(storm != nil, "a notification of 5,000 alerts: %w", storm)
	bad(rate < burstRate, "goal missed: %.0f answers a second, want %d", rate, burstRate)
	bad(at(99) > burstP99, "goal missed: 99 in 100 answered within %s, want %s", at(99), burstP99)
	bad(memory > burstMemory, "goal missed: %d MiB of memory, want %d", memory>>20, burstMemory>>20)
	return errors.Join(errs...)
}
