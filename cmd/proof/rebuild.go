package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/local"
)

// rebuild rebuilds the filter from real shards while names are registered and
// asked for.
type rebuild struct {
	names    int
	capacity uint64
	rounds   int
}

// Goals: the longest check, and the most memory in multiples of one filter.
const (
	pauseGoal  = 50 * time.Millisecond
	memoryGoal = 2.2 // two filters and 10 %
)

// quietFor is how long the checks are measured before the first rebuild.
const quietFor = 3 * time.Second

func newRebuild() *cobra.Command {
	r := rebuild{}
	cmd := suite("rebuild", "Rebuild the filter under load; print errors, the longest check and the memory", r.run)
	fs := cmd.Flags()
	fs.IntVar(&r.names, "names", 1_000_000, "names that are taken")
	fs.Uint64Var(&r.capacity, "capacity", 100_000_000, "names to size the filter for; one filter must be large beside everything else")
	fs.IntVar(&r.rounds, "rounds", 3, "rebuilds")
	return cmd
}

func (r *rebuild) run(ctx context.Context, out io.Writer) (err error) {
	back, err := startBackEnds(ctx, local.PostgresOptions{Shards: fleetShards}, r.names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back.close()) }()
	options := back.options(r.capacity)
	path, err := local.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, path.Close()) }()
	one := float64(path.Service.Filter.Stats().Bits) / 8
	without := float64(heapInUse()) - one

	// What checks take without a rebuild tells what the machine makes of them.
	quiet := startTraffic(ctx, path.URL, "early")
	err = pause(ctx, quietFor)
	quiet.stop()
	before, _ := quiet.worst()
	if err != nil {
		return err
	}
	load := startTraffic(ctx, path.URL, "late")
	started := time.Now()
	for range r.rounds {
		if err := path.Service.RebuildFilter(ctx, options.Filter); err != nil {
			load.stop()
			return err
		}
	}
	took := time.Since(started)
	load.stop()
	filters := (float64(load.memory) - without) / one
	worst, rare := load.worst()
	_, err = fmt.Fprintf(out, "names=%d registered=%d checks=%d errors=%d missing=%d rebuilds=%d seconds=%.1f worst_check_ms=%.2f p999_check_ms=%.3f worst_check_before_ms=%.2f filters_in_memory=%.2f filter_bytes=%.0f\n",
		r.names, len(load.registered), len(load.took), load.errors.Load(), load.missing(path.Service.Filter), r.rounds, took.Seconds(),
		milliseconds(worst), milliseconds(rare), milliseconds(before), filters, one)
	switch {
	case err != nil:
		return err
	case load.errors.Load() > 0 || load.missing(path.Service.Filter) > 0:
		return errors.New("requests failed, or names are missing")
	case worst > pauseGoal:
		return fmt.Errorf("a check took %s, the goal is %s", worst, pauseGoal)
	case filters > memoryGoal:
		return fmt.Errorf("there were %.2f filters in memory, the goal is %.2f", filters, memoryGoal)
	}
	return nil
}

// traffic is what goes on during a rebuild. Its figures are to be read when it
// has stopped.
type traffic struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	users   *client

	took       []time.Duration // of every check
	mu         sync.Mutex
	registered []string
	errors     atomic.Int64
	memory     uint64 // the most bytes of live heap
}

// registrants is how many register at a time.
const registrants = 4

// startTraffic registers names that begin with the prefix, and checks others.
func startTraffic(ctx context.Context, url, prefix string) *traffic {
	t := &traffic{users: newClient(registrants + 1), took: make([]time.Duration, 0, 1<<20)}
	ctx, t.cancel = context.WithCancel(ctx)
	for w := range registrants {
		t.running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				n := fmt.Sprintf("%s%d.%d", prefix, w, i)
				if _, err := t.users.register(ctx, url, n); err != nil {
					t.failed(ctx)
					continue
				}
				t.mu.Lock()
				t.registered = append(t.registered, n)
				t.mu.Unlock()
			}
		})
	}
	t.running.Go(func() {
		// A thousand checks a second: each is measured, and the machine is left to the rebuild.
		every := time.NewTicker(time.Millisecond)
		defer every.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-every.C
			start := time.Now()
			if _, err := t.users.check(ctx, url, "nobody-has-"+strconv.Itoa(i), registered{}); err != nil {
				t.failed(ctx)
			}
			t.took = append(t.took, time.Since(start))
		}
	})
	t.running.Go(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		every := time.NewTicker(5 * time.Millisecond)
		defer every.Stop()
		for ctx.Err() == nil {
			<-every.C
			metrics.Read(live) // stops nobody
			t.memory = max(t.memory, live[0].Value.Uint64())
		}
	})
	return t
}

func (t *traffic) stop() {
	t.cancel()
	t.running.Wait()
	t.users.close()
}

// worst is what the longest check took, and one in a thousand.
func (t *traffic) worst() (worst, rare time.Duration) {
	if len(t.took) == 0 {
		return 0, 0
	}
	slices.Sort(t.took)
	return t.took[len(t.took)-1], t.took[len(t.took)*999/1000]
}

// failed counts a request that failed for another reason than the end.
func (t *traffic) failed(ctx context.Context) {
	if ctx.Err() == nil {
		t.errors.Add(1)
	}
}

// missing counts the names registered meanwhile that the filter lacks.
func (t *traffic) missing(f *bloom.Filter) int {
	_, maybe := f.TestAll(t.registered)
	return len(t.registered) - len(maybe)
}
