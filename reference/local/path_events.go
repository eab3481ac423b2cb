package local

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/event"
	"github.com/regpath/diagnose/reference/shard"
)

// The groups that every event must reach. Beside them each instance has one that feeds its filter.
const (
	auditGroup   = "audit"
	profileGroup = "profile"
	welcomeGroup = "welcome"
)

const (
	// hookTimeout bounds one post to a service that wants to know of registrations.
	hookTimeout = time.Second
	// hookBackoff is the longest pause between two tries of one event, and the longest rest of a group that lets registrations
	// go first: a service that comes back is not kept waiting.
	hookBackoff = time.Second
	// busyRegistrations is how many registrations are under way when what follows them, and nobody waits for, lets them go
	// first. Seldom are there two.
	busyRegistrations = 8
	// filterTTL is how long a filter's group outlives its instance. Until then it is waited for, and when the window of the
	// relay is full, by everybody. An instance that comes back later asks the shards, which it does anyway.
	filterTTL = time.Minute
	// joinAgain is the pause between two attempts to reach the streams at the start.
	joinAgain = time.Second
)

// events is what follows a registration: the relay, a consumer of every group, and what keeps the caches in step.
type events struct {
	path    *Path
	redis   cache.RedisOptions
	client  *redis.Client
	shards  []string
	machine int
	failed  func(reference.Failure)

	filter *event.Consumer
	missed chan struct{} // says that events may have passed the filter by
}

// openEvents makes the relay and the consumers, which run once run is called.
func (p *Path) openEvents(ctx context.Context, o Options, machine int, l *reference.Layers) (*events, error) {
	e := &events{path: p, redis: l.Redis.Options(), machine: machine, failed: l.Failed, missed: make(chan struct{}, 1)}
	shards := l.Shards.Len()
	// One connection for each shard of each group waits for events; the relay has one for each shard, and two are spare.
	e.client = newClient(e.redis, 4*shards+shards+2)
	p.onClose(e.client.Close)
	sources := make([]event.Source, shards)
	for i := range sources {
		sources[i] = event.Source{Name: "shard" + strconv.Itoa(i), Outbox: l.Shards.Store(i)}
		e.shards = append(e.shards, sources[i].Name)
	}
	var err error
	l.Relay, err = event.NewRelay(event.RelayOptions{
		Redis: e.client, Sources: sources, Groups: []string{auditGroup, profileGroup, welcomeGroup}, Failed: e.report("relay", ""),
	})
	if err != nil {
		return nil, err
	}
	if l.Audit, err = p.openAudit(ctx, e.report(auditGroup, "")); err != nil {
		return nil, err
	}
	if l.FollowUps, err = p.openHook(o.FollowUpURL); err != nil {
		return nil, err
	}
	welcome, err := p.openHook(o.WelcomeURL)
	if err != nil {
		return nil, err
	}
	e.filter, err = e.consumer("bloom-"+strconv.Itoa(machine), event.FeedFilter(l.Filter.Learn), e.report("filter", ""), func(o *event.ConsumerOptions) {
		o.Missed, o.GroupTTL = e.miss, filterTTL
	})
	if err != nil {
		return nil, err
	}
	l.Consumers = append(l.Consumers, e.filter)
	for _, g := range []struct {
		group, target, what string
		handle              event.Handler
		all                 func(context.Context, []event.Event) error
	}{
		{auditGroup, auditGroup, "", l.Audit.Handle, l.Audit.HandleAll},
		{profileGroup, "profile-service", "registration follow-up failed: ", l.FollowUps.Handle, nil},
		{welcomeGroup, "welcome-service", "registration follow-up failed: ", welcome.Handle, nil},
	} {
		c, err := e.consumer(g.group, g.handle, e.report(g.target, g.what), func(o *event.ConsumerOptions) { o.HandleAll, o.Yield = g.all, p.busy })
		if err != nil {
			return nil, err
		}
		l.Consumers = append(l.Consumers, c)
	}
	return e, nil
}

// busy says that registrations queue up.
func (p *Path) busy() bool { return p.Service.Registering() >= busyRegistrations }

func (e *events) consumer(group string, handle event.Handler, failed func(error), more func(*event.ConsumerOptions)) (*event.Consumer, error) {
	o := event.ConsumerOptions{
		Redis: e.client, Shards: e.shards, Group: group, Name: "checker-" + strconv.Itoa(e.machine),
		Handle: handle, Failed: failed, MaxBackoff: hookBackoff,
	}
	more(&o)
	return event.NewConsumer(o)
}

// report sorts a failure to the layer that failed: Redis, a shard, or the target itself.
func (e *events) report(target, what string) func(error) {
	return func(err error) {
		f := reference.Failure{Layer: reference.Event, Target: target, Err: err}
		lane := (*event.LaneError)(nil)
		switch {
		case errors.Is(err, event.ErrRedis):
			e.redisFailed(err)
			return
		case errors.Is(err, event.ErrOutbox) && errors.As(err, &lane):
			f.Layer, f.Target = reference.Shard, lane.Shard
		case what != "":
			f.Err = fmt.Errorf("%s%w", what, err)
		}
		e.failed(f)
	}
}

// run starts all that follows a registration, after making sure that the filter will hear of every name that its first build,
// which comes next, does not see. Without Redis that is made up for when it is there.
func (e *events) run(ctx context.Context, l reference.Layers) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	if e.filter.Join(ctx) != nil {
		running.Go(func() { e.joinLate(ctx) })
	}
	running.Go(func() { e.rebuild(ctx) })
	tried, done := context.WithCancel(ctx)
	// What was registered elsewhere while Redis was away is in no news, and its events may queue behind many others: the
	// shards are asked instead. The first time the filter is built anyway.
	again := false
	connected := func() {
		done()
		if again {
			e.miss()
		}
		again = true
	}
	follower := cache.Follower{
		Redis: l.Redis, Local: l.Local, Taken: l.Filter.Learn, Lost: e.miss, Connected: connected,
		Failed: func(err error) { done(); e.redisFailed(err) },
	}
	running.Go(func() { follower.Run(ctx) })
	<-tried.Done() // lest the local cache is emptied under the first requests
	upkeep := cache.Upkeep{Redis: l.Redis, Hot: hotNames{l.Shards}, Failed: e.redisFailed}
	running.Go(func() { upkeep.Run(ctx) })
	running.Go(func() { l.Relay.Run(ctx) })
	for _, c := range l.Consumers {
		running.Go(func() { c.Run(ctx) })
	}
	e.path.onClose(func() error {
		cancel()
		running.Wait()
		return nil
	})
}

func (e *events) joinLate(ctx context.Context) {
	for e.filter.Join(ctx) != nil {
		select {
		case <-time.After(joinAgain):
		case <-ctx.Done():
			return
		}
	}
	e.miss()
}

func (e *events) miss() {
	select {
	case e.missed <- struct{}{}:
	default: // a rebuild is due already
	}
}

// rebuild makes good what passed the filter by, as often as something may have.
func (e *events) rebuild(ctx context.Context) {
	for {
		select {
		case <-e.missed:
		case <-ctx.Done():
			return
		}
		if err := e.path.Service.RefillFilter(ctx); err != nil && ctx.Err() == nil {
			e.failed(reference.Failure{Layer: reference.Bloom, Target: "filter", Err: fmt.Errorf("rebuild after missed events: %w", err)})
		}
	}
}

func (e *events) redisFailed(err error) {
	e.failed(reference.Failure{Layer: reference.Redis, Target: e.redis.Address, Err: err})
}

// hotRequests is how often a name must have reached its shard within the window of its top keys to be hot.
const hotRequests = 60

// hotNames are the names that the shards are asked for most.
type hotNames struct{ shards *shard.Cluster }

// HotNames implements [cache.HotNames].
func (h hotNames) HotNames() []string {
	var hot []shard.KeyCount
	for _, s := range h.shards.Stats() {
		for _, k := range s.TopKeys.Keys {
			if k.Count-k.Error >= hotRequests {
				hot = append(hot, k)
			}
		}
	}
	slices.SortFunc(hot, func(a, b shard.KeyCount) int { return cmp.Compare(b.Count, a.Count) })
	names := make([]string, len(hot))
	for i, k := range hot {
		names[i] = k.Key
	}
	return names
}

// openAudit opens the audit table: in the database of the first shard or, where the shards are embedded, in a private file.
func (p *Path) openAudit(ctx context.Context, report func(error)) (*event.Audit, error) {
	driver, source := "sqlite", ""
	if len(p.ShardDSNs) > 0 {
		driver, source = "pgx", p.ShardDSNs[0]
	} else {
		files, err := newFolder(nil)
		if err != nil {
			return nil, fmt.Errorf("make folder for the audit: %w", err)
		}
		p.onClose(files.remove)
		source = "file:" + filepath.Join(files.path, "audit.sqlite") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, errors.New("open audit: bad data source") // the cause may repeat a password
	}
	db.SetMaxOpenConns(2)
	p.onClose(db.Close)
	return event.NewAudit(ctx, db, report)
}

// openHook prepares posts to the URL.
func (p *Path) openHook(url string) (*event.Hook, error) {
	hook, err := event.NewHook(url, hookTimeout)
	if err != nil {
		return nil, err
	}
	p.onClose(func() error { hook.Close(); return nil })
	return hook, nil
}

// newClient is a client of Redis beside the cache's pool, which it must not use up. It tries once, as that does.
func newClient(o cache.RedisOptions, pool int) *redis.Client {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = cache.DefaultTimeout
	}
	return redis.NewClient(&redis.Options{
		Addr: o.Address, Username: o.Username, Password: string(o.Password), DB: o.DB, TLSConfig: o.TLS,
		ClientName: "checker-events", DisableIdentity: true, PoolSize: pool, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
