package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/api"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/id"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/shard"
)

// Options describe a whole registration path.
type Options struct {
	// Real starts private servers from the system's binaries instead of the embedded Redis and SQLite.
	Real bool
	// Redis is the user's own Redis, in place of a private one when it has an address.
	Redis cache.RedisOptions
	// ShardDSNs are the user's own PostgreSQL databases, one per shard and always in the same order, in place of private
	// ones.
	ShardDSNs []string
	// Shards is the number of private shards; 0 means 4.
	Shards int
	// ShardReplicaDSNs are streaming replicas of ShardDSNs, in the same order, that look-ups go to; none by default.
	ShardReplicaDSNs []string
	// ShardPool is the number of connections to each shard; 0 means 8.
	ShardPool int
	// Names is how many names private shards are given to begin with; 0 means none. The user's own are never seeded.
	Names int
	// Filter is what the Bloom filter is built for. Its Capacity 0 means half as much again as Names, or a million where the
	// shards are the user's own or nothing is seeded; its Rate 0 means 1 %.
	Filter bloom.Params
	// NamePolicy says which names there can be. It must be the same at all instances.
	NamePolicy name.Options
	// LocalCache is the number of names in the local cache; 0 means 1000.
	LocalCache int
	// FollowUpURL is posted to after a registration; empty means a private server that says yes to everything.
	FollowUpURL string
	// WelcomeURL is the same for the service that welcomes.
	WelcomeURL string
	// Machine is the machine number in user ids, 0 to 511.
	Machine int
	// LeaseMachine takes a machine number that is free from Redis, which all instances share, in place of Machine.
	LeaseMachine bool
	// CoolDown is how long a released name stays nobody's; 0 means 90 days.
	CoolDown time.Duration
	// ReclaimEvery is the pause between two looks for names whose cool-down is over; 0 means a minute.
	ReclaimEvery time.Duration
	// Snapshot is a file that keeps the filter between two runs; empty for none.
	Snapshot string
	// Guard limits what one address, and all together, may ask. Loopback is trusted.
	Guard GuardOptions
	// ReceiptKey signs what registrants may show at other instances; all need the same, of 16 bytes at least. Empty means one
	// of this instance's own.
	ReceiptKey cache.Secret
	// Faults mounts the switches under /debug/fault/.
	Faults bool
	// Listen is where HTTP is served; empty means a free port of 127.0.0.1.
	Listen string
	// Logger gets what happens to the service as a whole; nil discards it.
	Logger *slog.Logger
}

// withDefaults fills in what is left open.
func (o Options) withDefaults() Options {
	if o.Shards == 0 {
		o.Shards = 4
	}
	if o.ShardPool == 0 {
		o.ShardPool = shardPool
	}
	if o.Filter.Rate == 0 {
		o.Filter.Rate = 0.01
	}
	if o.Filter.Capacity == 0 {
		o.Filter.Capacity = 1_000_000
		if o.Names > 0 && len(o.ShardDSNs) == 0 {
			o.Filter.Capacity = uint64(o.Names + (o.Names+1)/2)
		}
	}
	if o.LocalCache == 0 {
		o.LocalCache = 1000
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate says what is wrong with o. Start refuses the same.
func (o Options) Validate() error {
	o = o.withDefaults()
	if o.Shards < 1 || o.Shards > shard.Buckets {
		return fmt.Errorf("number of shards must lie between 1 and %d, got %d", shard.Buckets, o.Shards)
	}
	if o.ShardPool < 1 || o.ShardPool > maxShardPool {
		return fmt.Errorf("connections to each shard must lie between 1 and %d, got %d", maxShardPool, o.ShardPool)
	}
	if n := len(o.ShardReplicaDSNs); n > 0 && n != len(o.ShardDSNs) {
		return fmt.Errorf("%d replicas for %d shards of your own: give one for each, or none", n, len(o.ShardDSNs))
	}
	if o.Names < 0 {
		return fmt.Errorf("number of names must not be negative, got %d", o.Names)
	}
	if o.Machine < 0 || o.Machine >= id.Machines {
		return fmt.Errorf("machine number must lie between 0 and %d, got %d", id.Machines-1, o.Machine)
	}
	if o.CoolDown < 0 || o.ReclaimEvery < 0 {
		return fmt.Errorf("cool-down (%s) and pause of the reclaim job (%s) must not be negative", o.CoolDown, o.ReclaimEvery)
	}
	if err := o.Guard.validate(); err != nil {
		return err
	}
	if _, err := name.NewPolicy(o.NamePolicy); err != nil {
		return err
	}
	_, _, err := o.Filter.Size()
	return err
}

// Path is a running registration path.
type Path struct {
	// URL is where the checker serves HTTP, without a slash at the end.
	URL string
	// RedisAddr is the address of Redis.
	RedisAddr string
	// ShardDSNs are the databases behind the shards; none when they are embedded. They may hold the user's passwords.
	ShardDSNs []string
	// Faults are the switches; nil without Options.Faults.
	Faults *fault.Registry
	// Service is the checker inside.
	Service *reference.Service

	shardFiles []string       // of embedded shards
	closers    []func() error // run from the last to the first
	served     chan struct{}
	failure    error // why serving ended; read after served is closed
}

// closeTimeout bounds how long running requests are waited for, and the mending of faults before.
const closeTimeout = 5 * time.Second

// Start starts the back ends, seeds them, builds the filter and serves. The caller must Close the path; ctx bounds the
// private servers' lives too. On an error nothing is left behind.
func Start(ctx context.Context, o Options) (*Path, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	p := &Path{served: make(chan struct{})}
	if err := p.start(ctx, o); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *Path) start(ctx context.Context, o Options) error {
	log, changes := api.NewErrorLog(), new(api.ChangeLog)
	patient := fault.Patient{
		Filter: o.Filter,
		Changed: func(kind, what, from, to string) {
			changes.Record(api.Change{Kind: kind, What: what, From: from, To: to, By: "operator"})
		},
		Delay: func(target string, each time.Duration) (string, func(), error) {
			proxy, err := NewDelayProxy(ctx, target)
			if err != nil {
				return "", nil, err
			}
			proxy.SetDelay(each, each)
			return proxy.Addr(), proxy.Close, nil
		},
	}
	layers, machine, err := p.layers(ctx, o, log.Record, &patient)
	if err != nil {
		return err
	}
	if o.FollowUpURL == "" || o.WelcomeURL == "" {
		private, err := p.startFollowers(ctx)
		if err != nil {
			return err
		}
		o.FollowUpURL = cmp.Or(o.FollowUpURL, private+"/v1/profiles")
		o.WelcomeURL = cmp.Or(o.WelcomeURL, private+"/v1/welcomes")
	}
	events, err := p.openEvents(ctx, o, machine, &layers)
	if err != nil {
		return err
	}
	p.Service = reference.New(layers)
	events.run(ctx, layers)
	if err := p.fillFilter(ctx, o); err != nil {
		return err
	}
	if s := p.Service.Filter.Stats(); s.NamesAdded() > o.Filter.Capacity {
		o.Logger.Warn("filter is too small", "names", s.NamesAdded(), "capacity", o.Filter.Capacity)
	}
	p.startReclaim(ctx, o, layers.Failed)
	shown, err := receipts(o.ReceiptKey)
	if err != nil {
		return err
	}
	options := api.Options{Receipts: shown, Service: p.Service, Errors: log, Changes: changes, Logger: o.Logger}
	if options.Guard, options.Origin, err = p.openGuard(o.Guard, layers.Redis.Options(), layers.Failed); err != nil {
		return err
	}
	if o.Faults {
		patient.Service = p.Service
		patient.Bypass, patient.Crowd = p.bypass, p.startCrowd
		client := newClient(layers.Redis.Options(), 1)
		p.onClose(client.Close)
		patient.Expire = func(ctx context.Context) error { return expire(ctx, client) }
		p.Faults = fault.NewRegistry(fault.Known(patient))
		options.Faults = p.Faults.Handler()
	}
	server, err := api.New(options)
	if err != nil {
		return err
	}
	return p.serve(ctx, o.Listen, server)
}

// serve listens and answers until the path is closed.
func (p *Path) serve(ctx context.Context, address string, server *api.Server) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.URL = "http://" + listener.Addr().String()
	go func() {
		defer close(p.served)
		p.failure = server.Serve(listener)
	}()
	p.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err := server.Shutdown(ctx)
		<-p.served
		return errors.Join(err, p.failure)
	})
	return nil
}

// layers opens every layer and fills in what the patient has of its own.
func (p *Path) layers(ctx context.Context, o Options, failed func(reference.Failure), patient *fault.Patient) (l reference.Layers, machine int, err error) {
	l = reference.Layers{Failed: failed, CoolDown: o.CoolDown}
	if l.Names, err = name.NewPolicy(o.NamePolicy); err != nil {
		return l, 0, err
	}
	if l.Filter, err = bloom.New(o.Filter); err != nil {
		return l, 0, err
	}
	if l.Local, err = cache.NewLocal(o.LocalCache); err != nil {
		return l, 0, err
	}
	p.onClose(func() error { l.Local.Close(); return nil })
	if l.Redis, err = p.openRedis(ctx, o, patient); err != nil {
		return l, 0, err
	}
	if l.Shards, err = p.openShards(ctx, o, patient); err != nil {
		return l, 0, err
	}
	l.IDs, machine, err = p.openIDs(ctx, o, l.Redis.Options(), patient, failed)
	return l, machine, err
}

// Done is closed when the path serves no longer, because it was closed or because it failed; Close tells.
func (p *Path) Done() <-chan struct{} { return p.served }

// Close mends what is broken, lets running requests end, stops everything that Start started and removes every file.
func (p *Path) Close() error {
	var errs []error
	if p.Faults != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, p.Faults.AllOff(ctx))
	}
	return errors.Join(append(errs, p.close())...)
}

func (p *Path) onClose(f func() error) { p.closers = append(p.closers, f) }

func (p *Path) close() error {
	var errs []error
	for len(p.closers) > 0 {
		last := len(p.closers) - 1
		errs = append(errs, p.closers[last]())
		p.closers = p.closers[:last]
	}
	return errors.Join(errs...)
}
