package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivermigrate"
)

// Inbox is the durable line between the webhook and the work: incidents, their
// alerts and memos, and River's jobs, in one SQLite file or Postgres schema.
type Inbox struct {
	opts Options
	// all has the couriers and their followers.
	all   map[string]Courier
	store *store
	// lease is nil where the store is not shared.
	lease   *lease
	client  *river.Client[*sql.Tx]
	metrics *metrics
	wakes   chan string // queues that have a new job

	// mu is held for reading by every Store under way, so that Stop can wait
	// for them; stopped is guarded by it.
	mu      sync.RWMutex
	stopped bool
	started bool
	// unwatch ends watch, and watching is closed when it has ended.
	unwatch  context.CancelFunc
	watching chan struct{}
}

var (
	// ErrStopped is returned by Store once Stop was called.
	ErrStopped = errors.New("the inbox is shutting down")
	// ErrBehind is returned by Store while so many messages wait for the disk that
	// the sender had better come again.
	ErrBehind = errors.New("too many messages wait for the disk")
)

// Open opens or creates the store and takes up what an earlier process left
// undone; the work itself begins with Start. Whoever opens it must Stop it.
//
// The store is the path of a SQLite file, which only one process at a time can
// have open, or a postgres:// URL, which any number of processes can. Whichever
// of these takes a message in, its incident is opened once and worked on by one
// of them at a time; when that one dies, another goes on. Tables are made in the
// schema diagnose, or the one that the URL has as search_path.
func Open(ctx context.Context, store string, opts Options) (*Inbox, error) {
	if opts.Worker == nil {
		return nil, errors.New("open inbox: no worker")
	}
	all := maps.Clone(opts.Couriers)
	if all == nil {
		all = map[string]Courier{}
	}
	maps.Copy(all, opts.Followers)
	if len(all) < len(opts.Couriers)+len(opts.Followers) {
		return nil, errors.New("open inbox: a courier and a follower have the same name")
	}
	for name := range all {
		if err := ValidCourierName(name); err != nil {
			return nil, fmt.Errorf("open inbox: courier %q: %w", name, err)
		}
	}
	opts = opts.withDefaults()
	s, err := openStore(ctx, store)
	if err != nil {
		return nil, err
	}
	in := &Inbox{opts: opts, all: all, store: s, wakes: make(chan string, wakesHeld)}
	if err := in.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", s.name, err), in.lease.end(ctx, true), s.close())
	}
	return in, nil
}

func (in *Inbox) open(ctx context.Context) error {
	// River speaks up for every step it takes; its warnings will do.
	logger := slog.New(atLeast{slog.LevelWarn, in.opts.Logger.Handler()})
	driver := wakingDriver{Driver: in.store.driver, store: in.store, wakes: in.wakes}
	if err := in.store.alone(ctx, func(ctx context.Context) error { return migrate(ctx, driver, logger) }); err != nil {
		return fmt.Errorf("prepare the queue: %w", err)
	}
	if in.store.shared {
		var err error
		if in.lease, err = takeLease(ctx, in.store, in.opts.Lease, in.tookOver, in.notHeard); err != nil {
			return err
		}
		driver.agent = in.lease.agent()
	}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &incidentWorker{inbox: in}); err != nil {
		return fmt.Errorf("prepare the queue: %w", err)
	}
	if err := river.AddWorkerSafely(workers, &pruneWorker{inbox: in}); err != nil {
		return fmt.Errorf("prepare the queue: %w", err)
	}
	if err := river.AddWorkerSafely(workers, &courierWorker{inbox: in}); err != nil {
		return fmt.Errorf("prepare the queue: %w", err)
	}
	queues := map[string]river.QueueConfig{
		river.QueueDefault: {MaxWorkers: in.opts.Workers},
		expressQueue:       {MaxWorkers: in.opts.Workers},
	}
	for _, courier := range in.couriers() {
		queues[queueOf(courier)] = river.QueueConfig{MaxWorkers: courierWorkers}
	}
	var err error
	in.client, err = river.NewClient(driver, &river.Config{
		ID:      in.lease.agent(),
		Logger:  logger,
		Workers: workers,
		Queues:  queues,
		// New jobs are told of by wake, at once unless many come; what is due again is
		// found by looking.
		FetchCooldown:     10 * time.Millisecond,
		FetchPollInterval: in.opts.pollInterval,
		JobTimeout:        in.opts.Timeout,
		SoftStopTimeout:   in.opts.Grace,
		// Within one process no job is orphaned, and those of a dead process are
		// taken up by reclaim or by a lease: this is only the net below.
		RescueStuckJobsAfter: 2*in.opts.Timeout + time.Minute,
		PeriodicJobs: []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(time.Hour),
			func() (river.JobArgs, *river.InsertOpts) { return pruneArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true})},
	})
	if err != nil {
		return fmt.Errorf("prepare the queue: %w", err)
	}
	if err := in.reclaim(ctx); err != nil {
		return err
	}
	in.metrics, err = newMetrics(in.opts.Registry, newBacklog(in.store.read, in.couriers(), in.opts.Now))
	return err
}

// migrate makes River's tables.
func migrate(ctx context.Context, driver wakingDriver, logger *slog.Logger) error {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// tookOver is told of the jobs of dead agents.
func (in *Inbox) tookOver(jobs int64) {
	in.opts.Logger.Warn("took up the jobs of an agent that is not heard of any more", "jobs", jobs)
	in.wakeAll()
}

// notHeard is told that this agent could not report.
func (in *Inbox) notHeard(err error) {
	in.opts.Logger.Warn("the store does not answer; other agents will take up the jobs of this one if that lasts", "err", err)
}

// reclaim takes up what the last process left. Where this one holds the store's
// lock, whoever ran a job or led the queue is dead: the jobs can be run again at
// once and the lead is free; else the lease sees to that. Incidents whose last
// news was never worked through, and whose job has been given up, get a new one.
func (in *Inbox) reclaim(ctx context.Context) error {
	if err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if in.store.shared {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `UPDATE river_job SET state = 'available' WHERE state = 'running'`); err != nil {
			return fmt.Errorf("take up jobs: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM river_leader`); err != nil {
			return fmt.Errorf("free the lead: %w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	pending, err := listIncidents(ctx, in.store.write, `worked < revision AND id NOT IN (
		SELECT args ->> 'incident' FROM river_job WHERE kind = 'incident' AND `+unfinished+`)`)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(pending, reclaimedAtOnce) {
		if err := in.store.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
			for _, inc := range part {
				if _, err := in.enqueue(ctx, tx, inc, true); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return in.redeliver(ctx)
}

// unfinished is the condition on a job that it will be worked on.
const unfinished = `state NOT IN ('completed', 'cancelled', 'discarded')`

// reclaimedAtOnce is how many jobs go into one transaction at the start.
const reclaimedAtOnce = 100

// Start begins to work on what is in the store. ctx ends with the process, not
// with the call: cancelling it stops the work as Stop does.
func (in *Inbox) Start(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped {
		return ErrStopped
	}
	if err := in.client.Start(ctx); err != nil {
		return fmt.Errorf("start the queue: %w", err)
	}
	in.started = true
	watched, unwatch := context.WithCancel(ctx)
	in.unwatch, in.watching = unwatch, make(chan struct{})
	go func() {
		defer close(in.watching)
		if len(in.opts.Senders) > 0 || in.opts.Watchdog != nil {
			in.watch(watched)
		}
	}()
	return nil
}

// Stop refuses further messages, lets running work go on for Options.Grace,
// cancels it then, and closes the store once it has returned or ctx has ended.
// What was not finished is taken up by the next process.
func (in *Inbox) Stop(ctx context.Context) error {
	in.mu.Lock() // waits for what is being stored
	stopped, started := in.stopped, in.started
	in.stopped = true
	in.mu.Unlock()
	if stopped {
		return nil
	}
	var err error
	if started {
		in.unwatch()
		<-in.watching
		if err = in.client.Stop(ctx); err != nil {
			err = fmt.Errorf("stop the queue: %w", err)
		}
	}
	err = errors.Join(err, in.lease.end(ctx, err == nil))
	in.metrics.unregister(in.opts.Registry)
	return errors.Join(err, in.store.close())
}
